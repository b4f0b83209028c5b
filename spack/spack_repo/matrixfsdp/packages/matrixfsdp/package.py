# The recipe of MatrixFSDP, in a repository of its own:
#
#   spack repo add <this source tree>/spack/spack_repo/matrixfsdp
#   spack install matrixfsdp +cuda +nccl cuda_arch=90
#   spack test run matrixfsdp          # tests/install: the examples, built against what was installed
#
# The only version is the source tree that this file lies in, as it is committed; `spack develop --path <this source tree>
# matrixfsdp@main` takes it as it is.

import os

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage

from spack.package import *

SOURCE = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), *[os.pardir] * 5))


class Matrixfsdp(CMakePackage, CudaPackage, ROCmPackage):
    """Owner-shaped ZeRO-3 for matrix optimizers such as Muon: C++20, Kokkos, MPI, HDF5."""

    homepage = f"file://{SOURCE}"
    git = f"file://{SOURCE}"

    version("main", branch="main")

    variant("shared", default=True, description="Build shared libraries")
    variant("openmp", default=False, description="Kokkos kernels on threads of each rank")
    variant("nccl", default=False, description="Segment collectives over NCCL")
    variant("onednn", default=False, description="Products in bfloat16 by oneDNN")
    variant("tests", default=False, description="Build the tests")
    variant(
        "cxxstd",
        default="20",
        values=("20", "23"),
        multi=False,
        description="C++ standard of the library",
    )

    generator("ninja")
    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type=("build", "test"))

    depends_on("mpi@3.1:")
    depends_on("kokkos@3.4:4")
    depends_on("kokkos+openmp", when="+openmp")
    depends_on("kokkos+shared", when="+shared")  # not a copy of it in each of our libraries
    depends_on("blas", when="~cuda")
    depends_on("lapack", when="~cuda")
    depends_on("hdf5@1.10:~cxx~fortran")
    depends_on("fmt@8:")
    depends_on("nlohmann-json@3.10:")
    depends_on("xxhash@0.8:")
    depends_on("cli11@2:", type="build")
    depends_on("onednn@2.6:", when="+onednn")
    depends_on("googletest@1.12:", when="+tests", type="build")

    # One architecture of devices for all that runs on them. cuBLAS and cuSOLVER come with cuda, in the place of blas.
    depends_on("kokkos+cuda+cuda_lambda+wrapper cxxstd=20", when="+cuda")
    for arch in CudaPackage.cuda_arch_values:
        depends_on(f"kokkos cuda_arch={arch}", when=f"+cuda cuda_arch={arch}")
        depends_on(f"nccl cuda_arch={arch}", when=f"+nccl cuda_arch={arch}")
    depends_on("nccl@2.18:+cuda", when="+nccl")
    depends_on("kokkos+rocm cxxstd=20", when="+rocm")
    for arch in ROCmPackage.amdgpu_targets:
        depends_on(f"kokkos amdgpu_target={arch}", when=f"+rocm amdgpu_target={arch}")

    conflicts("+cuda", when="+rocm", msg="one kind of device at a time: +cuda or +rocm")
    conflicts("+nccl", when="~cuda", msg="NCCL moves data between NVIDIA devices: +nccl needs +cuda")
    conflicts(
        "cuda_arch=none", when="+cuda", msg="Kokkos compiles for one architecture: +cuda needs cuda_arch=<number>"
    )
    conflicts(
        "amdgpu_target=none", when="+rocm", msg="Kokkos compiles for one architecture: +rocm needs amdgpu_target=<name>"
    )
    conflicts("+onednn", when="+cuda", msg="cuBLAS multiplies bfloat16 on devices: +cuda needs ~onednn")
    conflicts("^cuda@:11", when="+cuda", msg="C++20 in device code needs CUDA 12 or newer")
    conflicts("%gcc@:10", msg="C++20 needs GCC 11 or newer")
    conflicts("%clang@:13", msg="C++20 needs Clang 14 or newer")

    sanity_check_is_file = ["include/matrixfsdp/matrixfsdp.hpp", "bin/mfsdp-train", "bin/mfsdp-ckpt"]
    install_tests = ["tests/install", "apps/examples"]
    test_requires_compiler = True

    def one_architecture(self, variant):
        names = self.spec.variants[variant].value
        if len(names) > 1:
            raise InstallError(f"{variant}={','.join(names)}: Kokkos compiles for one architecture")

    def cmake_args(self):
        args = [
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define_from_variant("CMAKE_CXX_STANDARD", "cxxstd"),
            self.define_from_variant("MATRIXFSDP_BUILD_TESTS", "tests"),
            self.define_from_variant("MATRIXFSDP_ENABLE_NCCL", "nccl"),
            self.define_from_variant("MATRIXFSDP_ENABLE_ONEDNN", "onednn"),
            self.define_from_variant("MATRIXFSDP_REQUIRE_CUDA", "cuda"),
            self.define_from_variant("MATRIXFSDP_REQUIRE_HIP", "rocm"),
            self.define("MATRIXFSDP_BUILD_APPS", True),
            self.define("MATRIXFSDP_FETCH_DEPENDENCIES", False),
            self.define("Kokkos_ROOT", self.spec["kokkos"].prefix),
        ]
        if self.spec.satisfies("+nccl"):
            args.append(self.define("NCCL_ROOT", self.spec["nccl"].prefix))
        return args + self.device_compiler()

    def device_compiler(self):
        """what compiles kernels for a device, of the library and of a program that has some"""
        if self.spec.satisfies("+cuda"):
            self.one_architecture("cuda_arch")
            return [self.define("CMAKE_CXX_COMPILER", self["kokkos"].kokkos_cxx)]
        if self.spec.satisfies("+rocm"):
            self.one_architecture("amdgpu_target")
            return [self.define("CMAKE_CXX_COMPILER", self.spec["hip"].hipcc)]
        return []

    @run_after("install")
    def keep_install_tests(self):
        cache_extra_test_sources(self, self.install_tests)

    def test_install(self):
        """the examples build against the installed library, and run"""
        cache = self.test_suite.current_test_cache_dir
        project = join_path(cache, "tests", "install")
        cmake = which(self.spec["cmake"].prefix.bin.cmake)
        ctest = which(self.spec["cmake"].prefix.bin.ctest)
        cmake(
            "-S", project, "-B", "build",
            self.define("MatrixFSDP_ROOT", self.prefix),
            self.define("CMAKE_PREFIX_PATH", get_cmake_prefix_path(self)),
            self.define("MPI_CXX_COMPILER", self.spec["mpi"].mpicxx),
            self.define("Kokkos_ROOT", self.spec["kokkos"].prefix),
            *self.device_compiler(),
        )
        cmake("--build", "build")
        ctest("--test-dir", "build", "--output-on-failure", "--no-tests=error")
