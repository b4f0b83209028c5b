#include <matrixfsdp/core/error.hpp>
#include "io/dataset/window.hpp"
#include "window.hpp"
