#include <matrixfsdp/plan/model_spec.hpp>

#include "plan/fingerprint.hpp"

namespace matrixfsdp {
namespace {

void add(detail::Fingerprint& hash, const ParameterSpec& parameter) {
  hash.add(parameter.name);
  hash.add_size(parameter.shape.size());
  for (const std::int64_t extent : parameter.shape)
    hash.add(extent);
  hash.add(parameter.kind ? std::int64_t{1} + static_cast<std::int64_t>(*parameter.kind) : std::int64_t{0});
  hash.add(std::int64_t{parameter.embedding});
  hash.add(std::int64_t{parameter.blocks.axis});
  hash.add_size(parameter.blocks.names.size());
  for (const std::string& name : parameter.blocks.names)
    hash.add(name);
  hash.add_size(parameter.blocks.sizes.size());
  for (const std::int64_t size : parameter.blocks.sizes)
    hash.add(size);
  hash.add(std::int64_t{parameter.frozen});
  hash.add(parameter.group);
  hash.add(static_cast<std::int64_t>(parameter.initialization.kind));
  hash.add(parameter.initialization.standard_deviation);
}

}  // namespace

std::uint64_t hash_of(const ModelSpec& model) {
  detail::Fingerprint hash;
  hash.add_size(model.units.size());
  for (const UnitSpec& unit : model.units) {
    hash.add(unit.name);
    hash.add(std::int64_t{unit.keep});
    hash.add_size(unit.parameters.size());
    for (const ParameterSpec& parameter : unit.parameters)
      add(hash, parameter);
  }
  hash.add_size(model.tied.size());
  for (const TiedParameter& tied : model.tied) {
    hash.add(tied.name);
    hash.add(tied.target);
  }
  hash.add_size(model.groups.size());
  for (const ParameterGroup& group : model.groups) {
    hash.add(group.name);
    hash.add(group.learning_rate_scale);
    hash.add(std::int64_t{group.weight_decay.has_value()});
    hash.add(group.weight_decay.value_or(0.0));
  }
  return hash.value();
}

}  // namespace matrixfsdp
