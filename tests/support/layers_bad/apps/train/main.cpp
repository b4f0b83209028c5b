#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/utils/strings.hpp>
#include "apps/train/options.hpp"
