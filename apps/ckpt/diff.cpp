#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checkpoint_reader.hpp>

#include "apps/ckpt/actions.hpp"
#include "apps/ckpt/locate.hpp"
#include "apps/ckpt/report.hpp"
#include "apps/ckpt/values.hpp"

namespace matrixfsdp::ckpt {
namespace {

using Key = std::pair<std::string, std::string>;  // parameter, what

/// How one tensor compares.
struct Comparison {
  Key tensor;
  std::string structure;  ///< what keeps the elements from being compared; empty: nothing
  std::int64_t elements = 0;
  std::int64_t different = 0;
  std::int64_t first = -1;  ///< index of the first that differs
  double largest = 0;       ///< absolute difference of two finite values
  double relative = 0;      ///< |a - b| / |b|, where b is not 0

  [[nodiscard]] bool same() const { return structure.empty() && different == 0; }
};

/// One value of the training state that differs.
struct StateDifference {
  std::string field;
  Json a;
  Json b;
};

class Tolerance {
 public:
  explicit Tolerance(const Command& command)
      : relative_(command.relative_tolerance), absolute_(command.absolute_tolerance) {}

  /// Without tolerances only equal bits are equal; with them NaN equals NaN.
  [[nodiscard]] bool exact() const { return relative_ == 0 && absolute_ == 0; }
  [[nodiscard]] bool same(double a, double b) const {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (std::isinf(a) || std::isinf(b)) return a == b;
    return std::abs(a - b) <= absolute_ + relative_ * std::abs(b);
  }

 private:
  double relative_;
  double absolute_;
};

class TensorDiff {
 public:
  TensorDiff(io::CheckpointReader& a, io::CheckpointReader& b, const Tolerance& tolerance)
      : a_(a), b_(b), tolerance_(tolerance) {}

  Comparison compare(const Key& key) {
    Comparison result;
    result.tensor = key;
    result.structure = structure_of(key);
    if (!result.structure.empty()) return result;
    const auto& [name, what] = key;
    result.elements = element_count(a_.shape(name, what));
    const DType dtype = a_.dtype(name, what);
    const std::size_t width = size_of(dtype);
    // All of A, because the two are cut into segments at different places.
    values_.resize(static_cast<std::size_t>(result.elements) * width);
    a_.read(name, what, [&](std::int64_t first, std::span<const std::byte> block) {
      std::copy(block.begin(), block.end(), values_.begin() + first * static_cast<std::int64_t>(width));
    });
    b_.read(name, what, [&](std::int64_t first, std::span<const std::byte> block) {
      const auto ours =
          std::span<const std::byte>(values_).subspan(static_cast<std::size_t>(first) * width, block.size());
      compare_block(dtype, first, ours, block, result);
    });
    return result;
  }

 private:
  std::string structure_of(const Key& key) const {
    if (!b_.tensors().contains(key)) return "only in A";
    if (!a_.tensors().contains(key)) return "only in B";
    const Shape& shape_a = a_.shape(key.first, key.second);
    const Shape& shape_b = b_.shape(key.first, key.second);
    if (shape_a != shape_b) return fmt::format("shape {} and {}", to_string(shape_a), to_string(shape_b));
    const DType dtype_a = a_.dtype(key.first, key.second);
    const DType dtype_b = b_.dtype(key.first, key.second);
    if (dtype_a != dtype_b) return fmt::format("dtype {} and {}", name_of(dtype_a), name_of(dtype_b));
    return {};
  }

  void compare_block(DType dtype, std::int64_t first, std::span<const std::byte> a, std::span<const std::byte> b,
                     Comparison& result) const {
    if (std::equal(a.begin(), a.end(), b.begin())) return;
    const std::size_t width = size_of(dtype);
    for (std::size_t i = 0; i < a.size() / width; ++i) {
      const bool bits = std::equal(a.begin() + static_cast<std::ptrdiff_t>(i * width),
                                   a.begin() + static_cast<std::ptrdiff_t>((i + 1) * width),
                                   b.begin() + static_cast<std::ptrdiff_t>(i * width));
      if (bits) continue;
      const double x = value_at(dtype, a, i);
      const double y = value_at(dtype, b, i);
      if (!tolerance_.exact() && tolerance_.same(x, y)) continue;
      if (result.different++ == 0) result.first = first + static_cast<std::int64_t>(i);
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      result.largest = std::max(result.largest, std::abs(x - y));
      if (y != 0) result.relative = std::max(result.relative, std::abs(x - y) / std::abs(y));
    }
  }

  io::CheckpointReader& a_;
  io::CheckpointReader& b_;
  const Tolerance& tolerance_;
  std::vector<std::byte> values_;
};

/// A's tensors in its order, then what only B has.
std::vector<Key> keys_of(const io::CheckpointReader& a, const io::CheckpointReader& b, bool all) {
  std::vector<Key> keys;
  std::set<Key> seen;
  for (const io::CheckpointReader* reader : {&a, &b}) {
    for (const io::StoredSegment& segment : reader->manifest().segments) {
      if (!all && segment.what != io::weight_name) continue;
      if (seen.emplace(segment.parameter, segment.what).second) keys.emplace_back(segment.parameter, segment.what);
    }
  }
  return keys;
}

std::vector<StateDifference> compare_state(const io::Manifest& a, const io::Manifest& b) {
  const auto fields = [](const io::Manifest& manifest) {
    Json all = state_json(manifest.state);
    all["model"] = fmt::format("{:016x}", hash_of(manifest.model));
    return all;
  };
  const Json ours = fields(a);
  const Json theirs = fields(b);
  std::vector<StateDifference> differences;
  for (const auto& [name, value] : ours.items()) {
    if (value != theirs[name]) differences.push_back({name, value, theirs[name]});
  }
  return differences;
}

Json to_json(const Comparison& c) {
  return {{"parameter", c.tensor.first},
          {"what", c.tensor.second},
          {"same", c.same()},
          {"structure", c.structure.empty() ? Json() : Json(c.structure)},
          {"elements", c.elements},
          {"different", c.different},
          {"first", c.first < 0 ? Json() : Json(c.first)},
          {"largest_difference", c.largest},
          {"largest_relative_difference", c.relative}};
}

std::string to_text(const std::vector<Comparison>& comparisons, const std::vector<StateDifference>& state) {
  std::vector<std::vector<std::string>> rows{
      {"tensor", "what ", "different", "of", "first", "largest |a - b|", "largest relative", "structure "}};
  for (const Comparison& c : comparisons) {
    if (c.same()) continue;
    rows.push_back({c.tensor.first, c.tensor.second, std::to_string(c.different), std::to_string(c.elements),
                    c.first < 0 ? "-" : std::to_string(c.first), fmt::format("{:.4g}", c.largest),
                    fmt::format("{:.4g}", c.relative), c.structure});
  }
  std::string text = rows.size() > 1 ? table(rows) : "";
  for (const StateDifference& difference : state)
    text += fmt::format("{}: {} and {}\n", difference.field, difference.a.dump(), difference.b.dump());
  const std::size_t different = rows.size() - 1;
  text += different + state.size() == 0 ? fmt::format("same: {} tensors\n", comparisons.size())
                                        : fmt::format("DIFFERENT: {} of {} tensors, {} fields of the training state\n",
                                                      different, comparisons.size(), state.size());
  return text;
}

}  // namespace

int diff(const Command& command) {
  io::CheckpointReader a(locate(command.source));
  io::CheckpointReader b(locate(command.target));
  const Tolerance tolerance(command);
  TensorDiff tensors(a, b, tolerance);
  std::vector<Comparison> comparisons;
  for (const Key& key : keys_of(a, b, command.all))
    comparisons.push_back(tensors.compare(key));
  const auto state = command.all ? compare_state(a.manifest(), b.manifest()) : std::vector<StateDifference>();
  const bool same = state.empty() &&
                    std::all_of(comparisons.begin(), comparisons.end(), [](const Comparison& c) { return c.same(); });
  if (command.json) {
    Json tensor_list = Json::array();
    for (const Comparison& comparison : comparisons)
      tensor_list.push_back(to_json(comparison));
    Json state_list = Json::array();
    for (const StateDifference& difference : state)
      state_list.push_back({{"field", difference.field}, {"a", difference.a}, {"b", difference.b}});
    print_json({{"a", a.folder()}, {"b", b.folder()}, {"same", same}, {"tensors", tensor_list}, {"state", state_list}});
  } else {
    fmt::print("{}", to_text(comparisons, state));
  }
  return same ? exit_ok : exit_different;
}

}  // namespace matrixfsdp::ckpt
