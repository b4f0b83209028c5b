// A comment; with [brackets] and a "quote", so that line numbers are counted by lines.

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/orthogonalize/newton_schulz.hpp>
#include <matrixfsdp/plan/cost.hpp>

#include "comm/mpi/channel.hpp"
