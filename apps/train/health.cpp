#include "apps/train/health.hpp"

#include <cmath>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include <matrixfsdp/comm/redistribute.hpp>
#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::train {
namespace {

constexpr std::int64_t words = sizeof(MatrixHealth) / sizeof(float);  // of one record, as they travel
static_assert(sizeof(MatrixHealth) == 13 * sizeof(double));

/// One record, as every rank knows it from the plan.
struct Place {
  const ParameterSpec* spec = nullptr;
  MatrixPart part;
  std::size_t number = 0;  ///< within the parameter
  std::size_t of = 1;
  int rank = 0;
};

/// In canonical order. Of several shard groups the first one's.
std::vector<Place> places_of(const ShardedModel& model) {
  const Plan& plan = model.plan();
  const bool everywhere = plan.replicated || plan.world_size == 1;
  std::vector<Place> places;
  for (std::size_t u = 0; u < model.unit_count(); ++u) {
    const std::vector<ParameterSpec>& parameters = model.spec().units[u].parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (parameters[p].frozen || kind_of(parameters[p]) != ParameterKind::matrix) continue;
      const std::vector<MatrixPart> parts = matrix_parts(parameters[p]);
      for (std::size_t i = 0; i < parts.size(); ++i)
        places.push_back({&parameters[p], parts[i], i, parts.size(), everywhere ? 0 : plan.owner(u, p)});
    }
  }
  return places;
}

nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

nlohmann::json to_json(const MatrixFigures& figures) {
  return {{"norm", number(figures.norm)},
          {"largest", number(figures.largest)},
          {"smallest", number(figures.smallest)},
          {"non_finite",
           std::isnan(figures.non_finite) ? nlohmann::json() : nlohmann::json(std::llround(figures.non_finite))}};
}

nlohmann::json to_json(const Place& place, const MatrixHealth& health) {
  nlohmann::json json{{"matrix", place.spec->name},
                      {"rank", place.rank},
                      {"rows", place.part.rows},
                      {"cols", place.part.cols},
                      {"gradient", to_json(health.gradient)},
                      {"weight", to_json(health.weight)},
                      {"update", to_json(health.update)}};
  json["update"]["residual"] = number(health.residual);
  if (!place.part.name.empty()) json["part"] = place.part.name;
  if (place.part.name.empty() && place.of > 1) json["part"] = std::to_string(place.number);
  return json;
}

/// The ranks that speak for those that hold the same.
bool speaks_for_others(const ShardedModel& model) {
  const int rank = model.communicator().rank();
  return model.plan().replicated ? rank == 0 : rank < model.plan().world_size;
}

}  // namespace

nlohmann::json gather_health(ShardedModel& model, const HealthProbe& probe) {
  Communicator& communicator = model.communicator();
  const std::vector<Place> places = places_of(model);
  const bool collects = communicator.rank() == 0;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(communicator.size()), 0);
  for (const Place& place : places)
    ++counts[static_cast<std::size_t>(place.rank)];
  const Tensor<float> all = make_tensor<float>("health", words * static_cast<std::int64_t>(places.size()));
  const Tensor<float> own = make_tensor<float>("health", words * static_cast<std::int64_t>(probe.parts().size()));
  std::memcpy(own.data(), probe.parts().data(), probe.parts().size() * sizeof(MatrixHealth));
  std::vector<PeerElements<const float>> sends;
  std::vector<PeerElements<float>> receives;
  std::vector<std::int64_t> next(counts.size(), 0);  // record of `all`, by rank
  for (std::size_t rank = 1; rank < counts.size(); ++rank) {
    next[rank] = next[rank - 1] + counts[rank - 1];
    if (collects && counts[rank] > 0)
      receives.push_back({static_cast<int>(rank), slice(all, words * next[rank], words * counts[rank])});
  }
  const std::int64_t mine = counts[static_cast<std::size_t>(communicator.rank())];
  if (!collects && mine > 0) sends.push_back({0, slice(own, 0, words * mine)});
  redistribute(communicator, Purpose::health, sends, receives, {"health of matrices", "", "step"}).wait();
  if (!collects) return {};
  std::memcpy(all.data(), own.data(), static_cast<std::size_t>(mine) * sizeof(MatrixHealth));
  nlohmann::json list = nlohmann::json::array();
  for (const Place& place : places) {
    MatrixHealth health;
    std::memcpy(static_cast<void*>(&health), all.data() + words * next[static_cast<std::size_t>(place.rank)]++,
                sizeof(health));
    list.push_back(to_json(place, health));
  }
  return list;
}

std::vector<Failure> gather_failures(ShardedModel& model, const std::vector<NonFinite>& mine) {
  nlohmann::json said = nlohmann::json::array();
  for (const NonFinite& one : mine) {
    if (speaks_for_others(model)) said.push_back({one.parameter, one.quantity, one.count});
  }
  const std::string text = said.dump();
  const auto parts = model.communicator().all_gather(Purpose::health, std::as_bytes(std::span(text)),
                                                     {"values that are not finite", "", "step"});
  std::vector<Failure> failures;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const std::string_view part(reinterpret_cast<const char*>(parts[rank].data()), parts[rank].size());
    for (const nlohmann::json& one : nlohmann::json::parse(part))
      failures.push_back({static_cast<int>(rank), {one[0], one[1], one[2]}});
  }
  return failures;
}

nlohmann::json to_json(const std::vector<Failure>& failures) {
  nlohmann::json list = nlohmann::json::array();
  for (const Failure& one : failures) {
    list.push_back({{"parameter", one.what.parameter},
                    {"rank", one.rank},
                    {"quantity", one.what.quantity},
                    {"count", one.what.count}});
  }
  return list;
}

std::string to_text(const std::vector<Failure>& failures) {
  constexpr std::size_t shown = 4;
  if (failures.empty()) return "every gradient and weight is finite";
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, failures.size()); ++i) {
    const auto& [rank, what] = failures[i];
    text += fmt::format("{}{} of {} on rank {}", i > 0 ? ", " : "", what.quantity, what.parameter, rank);
    text += what.count > 0 ? fmt::format(" ({} values are not finite)", what.count) : " (cannot be made)";
  }
  if (failures.size() > shown) text += fmt::format(" and {} more", failures.size() - shown);
  return text;
}

}  // namespace matrixfsdp::train
