#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/manifest.hpp>
