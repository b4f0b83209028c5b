#include "support/property_case.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>

#include "unit/plan_models.hpp"

namespace matrixfsdp::testing {
namespace {

/// Integers of one seed, one after another.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed, stream_of("property case")) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_.below(index_++, static_cast<std::uint64_t>(high - low + 1)));
  }
  bool one_in(std::int64_t n) { return between(1, n) == 1; }

 private:
  CounterRandom random_;
  std::uint64_t index_ = 0;
};

ModelSpec draw_model(std::uint64_t seed, Draws& draws) {
  ModelSpec model = test::random_model(seed);
  model.groups = {{"slow", 0.5, 0.25}, {"still", 1.0, 0.0}};
  for (UnitSpec& unit : model.units) {
    for (ParameterSpec& spec : unit.parameters) {
      if (draws.one_in(4)) spec.group = model.groups[static_cast<std::size_t>(draws.between(0, 1))].name;
      if (draws.one_in(12)) model.tied.push_back({spec.name + ".tied", spec.name});
    }
    if (draws.one_in(4)) {
      unit.parameters.push_back(
          test::parameter(unit.name + ".kernel", {draws.between(2, 6), draws.between(1, 4), 3, 3}));
    }
  }
  return model;
}

/// What refers to parameters that are gone goes too, and blocks that no longer fit.
void repair(ModelSpec& model) {
  std::set<std::string> names;
  for (UnitSpec& unit : model.units) {
    for (ParameterSpec& spec : unit.parameters) {
      names.insert(spec.name);
      if (spec.blocks.empty()) continue;
      std::int64_t sum = 0;
      for (const std::int64_t size : spec.blocks.sizes)
        sum += size;
      const bool fits = sum == spec.shape.at(static_cast<std::size_t>(spec.blocks.axis));
      if (!fits || kind_of(spec) == ParameterKind::tail) spec.blocks = {};
    }
  }
  std::erase_if(model.tied, [&](const TiedParameter& tied) { return !names.contains(tied.target); });
}

class SmallerCases {
 public:
  explicit SmallerCases(const PropertyCase& sample) : sample_(sample) {}

  std::vector<PropertyCase> all() {
    for (std::size_t u = 0; u < sample_.model.units.size() && sample_.model.units.size() > 1; ++u)
      add([u](PropertyCase& c) { c.model.units.erase(c.model.units.begin() + static_cast<std::ptrdiff_t>(u)); });
    each_parameter([this](std::size_t u, std::size_t p) {
      add([u, p](PropertyCase& c) {
        auto& parameters = c.model.units[u].parameters;
        parameters.erase(parameters.begin() + static_cast<std::ptrdiff_t>(p));
      });
    });
    add_options();
    each_parameter([this](std::size_t u, std::size_t p) { add_smaller_parameters(u, p); });
    return std::move(cases_);
  }

 private:
  template <class Change>
  void add(const Change& change) {
    cases_.push_back(sample_);
    change(cases_.back());
    repair(cases_.back().model);
  }

  template <class T>
  void add_value(T PropertyCase::*member, T simplest) {
    if (sample_.*member != simplest) add([&](PropertyCase& c) { c.*member = simplest; });
  }

  template <class Visitor>
  void each_parameter(const Visitor& visit) {
    for (std::size_t u = 0; u < sample_.model.units.size(); ++u) {
      for (std::size_t p = 0; p < sample_.model.units[u].parameters.size(); ++p)
        visit(u, p);
    }
  }

  void add_options() {
    for (int ranks = 1; ranks < sample_.ranks; ++ranks)
      add([ranks](PropertyCase& c) { c.ranks = ranks; });
    add_value(&PropertyCase::steps, std::int64_t{1});
    add_value(&PropertyCase::passes, std::int64_t{1});
    add_value(&PropertyCase::prefetch, 0);
    add_value(&PropertyCase::max_norm, 0.0);
    add_value(&PropertyCase::policy, Policy::role);
    add_value(&PropertyCase::tails, TailPlacement::packed);
    if (!sample_.model.tied.empty()) add([](PropertyCase& c) { c.model.tied.clear(); });
    for (std::size_t u = 0; u < sample_.model.units.size(); ++u) {
      if (sample_.model.units[u].keep) add([u](PropertyCase& c) { c.model.units[u].keep = false; });
    }
  }

  void add_smaller_parameters(std::size_t u, std::size_t p) {
    const ParameterSpec& spec = sample_.model.units[u].parameters[p];
    const auto change = [&](const auto& action) {
      add([&](PropertyCase& c) { action(c.model.units[u].parameters[p]); });
    };
    for (std::size_t d = 0; d < spec.shape.size(); ++d) {
      if (spec.shape[d] <= 1) continue;
      change([d](ParameterSpec& s) { s.shape[d] /= 2; });
      change([d](ParameterSpec& s) { --s.shape[d]; });
    }
    if (!spec.blocks.empty()) change([](ParameterSpec& s) { s.blocks = {}; });
    if (spec.frozen) change([](ParameterSpec& s) { s.frozen = false; });
    if (spec.embedding) change([](ParameterSpec& s) { s.embedding = false; });
    if (spec.kind) change([](ParameterSpec& s) { s.kind.reset(); });
    if (!spec.group.empty()) change([](ParameterSpec& s) { s.group.clear(); });
  }

  const PropertyCase& sample_;
  std::vector<PropertyCase> cases_;
};

std::uint64_t number_from_environment(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0' || value == 0) {
    throw InputError(fmt::format("{} is \"{}\", expected a number from 1", name, text));
  }
  return value;
}

std::string describe(const ParameterSpec& spec) {
  std::string text = fmt::format("    {} {}", spec.name, to_string(spec.shape));
  if (spec.kind) text += fmt::format(" kind {}", name_of(*spec.kind));
  if (spec.embedding) text += " embedding";
  if (spec.frozen) text += " frozen";
  if (!spec.group.empty()) text += " group " + spec.group;
  if (!spec.blocks.empty()) text += fmt::format(" blocks on axis {}", spec.blocks.axis);
  for (const std::int64_t size : spec.blocks.sizes)
    text += fmt::format(" {}", size);
  return text + "\n";
}

}  // namespace

Plan PropertyCase::plan() const {
  if (replicated) return make_replicated_plan(model, ranks);
  PlannerOptions options;
  options.policy = policy;
  options.tails = tails;
  options.optimizer.matrices = matrices;
  return make_plan(model, ranks, options);
}

PropertyCase draw_case(std::uint64_t seed, int most_ranks) {
  Draws draws(seed);
  PropertyCase sample;
  sample.seed = seed;
  sample.model = draw_model(seed, draws);
  sample.ranks = static_cast<int>(draws.between(1, most_ranks));
  sample.policy = test::all_policies[draws.between(0, 3)];
  sample.tails = test::all_tail_placements[draws.between(0, 2)];
  sample.replicated = draws.one_in(8);
  sample.matrices = draws.one_in(4) ? MatrixOptimizer::adamw : MatrixOptimizer::muon;
  sample.prefetch = static_cast<int>(draws.between(0, 3));
  sample.passes = draws.between(1, 3);
  sample.steps = draws.between(1, 3);
  sample.max_norm = draws.one_in(2) ? 0.0 : 0.5;
  return sample;
}

std::string describe(const PropertyCase& sample) {
  std::string text = fmt::format(
      "seed {}: W = {}, planner {}, tails {}, {}matrices on {}, prefetch {}, {} passes, {} steps, clipping at {}\n",
      sample.seed, sample.ranks, name_of(sample.policy), static_cast<int>(sample.tails),
      sample.replicated ? "replicated, " : "", sample.matrices == MatrixOptimizer::muon ? "Muon" : "AdamW",
      sample.prefetch, sample.passes, sample.steps, sample.max_norm);
  for (const UnitSpec& unit : sample.model.units) {
    text += fmt::format("  {}{}\n", unit.name, unit.keep ? " (kept)" : "");
    for (const ParameterSpec& spec : unit.parameters)
      text += describe(spec);
  }
  for (const TiedParameter& tied : sample.model.tied)
    text += fmt::format("  {} is {}\n", tied.name, tied.target);
  return text;
}

std::vector<PropertyCase> smaller_cases(const PropertyCase& sample) {
  return SmallerCases(sample).all();
}

PropertyCase shrink(PropertyCase sample, const std::function<bool(const PropertyCase&)>& fails, int tries) {
  for (bool smaller = true; smaller && tries > 0;) {
    smaller = false;
    for (const PropertyCase& candidate : smaller_cases(sample)) {
      if (tries-- <= 0) break;
      if (!fails(candidate)) continue;
      sample = candidate;
      smaller = true;
      break;
    }
  }
  return sample;
}

PropertySeeds property_seeds() {
  return {number_from_environment("MATRIXFSDP_PROPERTY_FIRST", 1),
          number_from_environment("MATRIXFSDP_PROPERTY_SEEDS", 30)};
}

}  // namespace matrixfsdp::testing
