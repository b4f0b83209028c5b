#include <array>
#include <cstddef>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

namespace matrixfsdp {
namespace {

// Amsel, Persson, Musco, Gower 2025, arXiv 2505.16932, appendix A: the greedy minimax composition on [1e-3, 1],
// cushioned. Hard-coded: the authors' generator has changed since, and a table does not.
constexpr std::array<Quintic, 8> polar_express{{{8.28721201814563, -23.595886519098837, 17.300387312530933},
                                                {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
                                                {3.9486908534822946, -2.908902115962949, 0.5518191394370137},
                                                {3.3184196573706015, -2.488488024314874, 0.51004894012372},
                                                {2.300652019954817, -1.6689039845747493, 0.4188073119525673},
                                                {1.891301407787398, -1.2679958271945868, 0.37680408948524835},
                                                {1.8750014808534479, -1.2500016453999487, 0.3750001645474248},
                                                {1.875, -1.25, 0.375}}};

// p(x / s): singular values up to s times the expected bound, as rounding makes them, stay where p converges.
std::vector<Quintic> with_safety(double safety, std::size_t first_steps) {
  std::vector<Quintic> steps(polar_express.begin(), polar_express.end());
  const double cube = safety * safety * safety;
  for (std::size_t i = 0; i < first_steps; ++i) {
    steps[i] = {steps[i].a / safety, steps[i].b / cube, steps[i].c / (cube * safety * safety)};
  }
  return steps;
}

const std::array<QuinticSequence, 5>& sequences() {
  static const std::array<QuinticSequence, 5> table{{
      {"polar-express", with_safety(1.05, 5), 5},
      {"keller-jordan", {{3.4445, -4.7750, 2.0315}}, 5},
      {"you",
       {{4.0848, -6.8946, 2.9270},
        {3.9505, -6.3029, 2.6377},
        {3.7418, -5.5913, 2.3037},
        {2.8769, -3.1427, 1.2046},
        {2.8366, -3.0525, 1.2012}},
       5},
      {"polar-express-8", with_safety(1.01, 7), 8},
      {"taylor", {{1.875, -1.25, 0.375}}, 10},
  }};
  return table;
}

}  // namespace

const QuinticSequence& quintic_sequence(std::string_view name) {
  for (const QuinticSequence& sequence : sequences()) {
    if (sequence.name == name) return sequence;
  }
  throw InputError(fmt::format("Newton-Schulz coefficients \"{}\": expected one of {}", name,
                               fmt::join(quintic_sequence_names(), ", ")));
}

std::vector<std::string_view> quintic_sequence_names() {
  std::vector<std::string_view> names;
  for (const QuinticSequence& sequence : sequences())
    names.push_back(sequence.name);
  return names;
}

}  // namespace matrixfsdp
