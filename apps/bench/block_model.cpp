#include "apps/bench/block_model.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace matrixfsdp::bench {
namespace {

ParameterSpec matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
  ParameterSpec spec;
  spec.name = name;
  spec.shape = {rows, columns};
  return spec;
}

ModelSpec model_of_root(std::int64_t hidden) {
  ModelSpec model;
  model.units.push_back({"root", {matrix("root.weight", hidden, hidden)}, true});
  return model;
}

}  // namespace

ModelSpec block_model(std::int64_t blocks, std::int64_t hidden) {
  ModelSpec model = model_of_root(hidden);
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::string name = "block." + std::to_string(b);
    UnitSpec unit{name, {}, false};
    for (const char* square : {".query", ".key", ".value", ".output"})
      unit.parameters.push_back(matrix(name + square, hidden, hidden));
    unit.parameters.push_back(matrix(name + ".up", 4 * hidden, hidden));
    unit.parameters.push_back(matrix(name + ".down", hidden, 4 * hidden));
    model.units.push_back(std::move(unit));
  }
  return model;
}

ModelSpec even_block_model(std::int64_t blocks, std::int64_t hidden, std::int64_t matrices) {
  ModelSpec model = model_of_root(hidden);
  const double elements = 12.0 * static_cast<double>(hidden * hidden) / static_cast<double>(matrices);
  const std::int64_t extent = std::max<std::int64_t>(1, std::llround(std::sqrt(elements)));
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::string name = "block." + std::to_string(b);
    UnitSpec unit{name, {}, false};
    for (std::int64_t m = 0; m < matrices; ++m)
      unit.parameters.push_back(matrix(name + "." + std::to_string(m), extent, extent));
    model.units.push_back(std::move(unit));
  }
  return model;
}

}  // namespace matrixfsdp::bench
