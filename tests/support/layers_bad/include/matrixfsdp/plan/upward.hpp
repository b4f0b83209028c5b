#pragma once

#include <cstdint>

#include <matrixfsdp/core/shape.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
