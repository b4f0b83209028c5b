#include <numeric>

#include <matrixfsdp/comm/communicator.hpp>

namespace matrixfsdp {

std::string_view name_of(Purpose purpose) {
  static constexpr std::array<std::string_view, purpose_count> names{"unshard",   "reduce", "clip",
                                                                     "optimizer", "health", "other"};
  return names[static_cast<std::size_t>(purpose)];
}

std::int64_t ByteCounts::total() const {
  return std::accumulate(sent.begin(), sent.end(), std::int64_t{0});
}

}  // namespace matrixfsdp
