#include <algorithm>

#include <matrixfsdp/plan/strategy.hpp>

namespace matrixfsdp {
namespace {

/// The storage of units that are not kept, as ShardedModel recycles it: a unit is fetched when its storage holds
/// another one's weights.
class Storage {
 public:
  Storage(std::vector<bool> kept, std::int64_t prefetch, bool rows)
      : kept_(std::move(kept)), prefetch_(prefetch), rows_(rows), fetches(kept_.size(), 0), current_(kept_.size()) {
    std::int64_t recycled = 0;
    for (const bool keep : kept_) {
      slot_of_.push_back(keep ? -1 : recycled);
      recycled += keep ? 0 : 1;
    }
    slots_.assign(static_cast<std::size_t>(std::max<std::int64_t>(1, std::min(rows ? 1 : prefetch + 1, recycled))), -1);
    landing_.assign(rows ? static_cast<std::size_t>(std::max<std::int64_t>(1, prefetch)) : 0, -1);
  }

  void use(std::int64_t unit, std::int64_t direction) {
    if (!is_current(unit)) {
      if (!rows_ || !has_landed(unit)) fetch(unit);
      move_in(unit);
    }
    for (std::int64_t ahead = 1; ahead <= prefetch_; ++ahead) {
      const std::int64_t next = unit + direction * ahead;
      if (next < 0 || next >= static_cast<std::int64_t>(kept_.size())) return;
      prefetch(next, unit);
    }
  }

 private:
  [[nodiscard]] bool is_current(std::int64_t unit) const { return current_[static_cast<std::size_t>(unit)]; }
  [[nodiscard]] bool has_landed(std::int64_t unit) const {
    return std::find(landing_.begin(), landing_.end(), unit) != landing_.end();
  }
  std::int64_t& slot(std::int64_t unit) {
    return slots_[static_cast<std::size_t>(slot_of_[static_cast<std::size_t>(unit)]) % slots_.size()];
  }
  std::int64_t& landing(std::int64_t unit) { return landing_[static_cast<std::size_t>(unit) % landing_.size()]; }

  void fetch(std::int64_t unit) {
    ++fetches[static_cast<std::size_t>(unit)];
    if (rows_) landing(unit) = unit;
  }

  void move_in(std::int64_t unit) {
    if (rows_) landing(unit) = -1;
    current_[static_cast<std::size_t>(unit)] = true;
    if (kept_[static_cast<std::size_t>(unit)]) return;
    std::int64_t& occupant = slot(unit);
    if (occupant >= 0 && occupant != unit) current_[static_cast<std::size_t>(occupant)] = false;
    occupant = unit;
  }

  void prefetch(std::int64_t next, std::int64_t in_use) {
    if (is_current(next)) return;
    if (rows_) {
      if (landing(next) < 0) fetch(next);
      return;
    }
    if (!kept_[static_cast<std::size_t>(next)] && slot(next) == in_use) return;
    fetch(next);
    move_in(next);
  }

  std::vector<bool> kept_;
  std::int64_t prefetch_;
  bool rows_;

 public:
  std::vector<std::int64_t> fetches;

 private:
  std::vector<bool> current_;
  std::vector<std::int64_t> slot_of_;
  std::vector<std::int64_t> slots_;    ///< unit, or -1
  std::vector<std::int64_t> landing_;  ///< unit that has arrived and was not copied out, or -1
};

}  // namespace

std::vector<std::int64_t> fetches_per_step(const ModelSpec& model, const Plan& plan, const MemoryOptions& options) {
  const auto units = static_cast<std::int64_t>(model.units.size());
  if (plan.replicated || plan.world_size == 1 || options.resident_weights)
    return std::vector<std::int64_t>(model.units.size(), 0);
  const std::vector<UnitPolicy> policies = resolve(options.policies, model, plan.world_size);
  std::vector<bool> kept;
  for (std::size_t u = 0; u < model.units.size(); ++u)
    kept.push_back(model.units[u].keep || policies[u].reshard_to == 1);
  Storage storage(std::move(kept), options.prefetch, plan.row_shards);
  for (std::int64_t pass = 0; pass < options.passes; ++pass) {
    for (std::int64_t unit = 0; unit < units; ++unit)
      storage.use(unit, 1);
    for (std::int64_t unit = units - 1; unit > 0; --unit)
      storage.use(unit, -1);
  }
  return storage.fetches;
}

}  // namespace matrixfsdp
