#include <mpi.h>
#include <hdf5.h>
#include <Kokkos_Core.hpp>
#include "apps/train/options.hpp"
