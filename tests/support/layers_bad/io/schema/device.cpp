#include <Kokkos_Core.hpp>
#include <hdf5.h>
#include <matrixfsdp/plan/plan.hpp>
#include "io/dataset/window.hpp"
