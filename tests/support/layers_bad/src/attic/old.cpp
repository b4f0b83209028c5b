#include <matrixfsdp/core/error.hpp>
