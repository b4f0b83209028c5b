#pragma once

#include <cstdint>

#include <matrixfsdp/plan/model_spec.hpp>

namespace matrixfsdp::bench {

/// A kept root of one h x h, and units like a transformer's blocks: four h x h and two h x 4h matrices, 12 h^2
/// elements. For what needs no forward: nothing in it is a model of language.
ModelSpec block_model(std::int64_t blocks, std::int64_t hidden);

/// The same root, and units of `matrices` equal square matrices, of together about as many elements as a block above.
ModelSpec even_block_model(std::int64_t blocks, std::int64_t hidden, std::int64_t matrices);

}  // namespace matrixfsdp::bench
