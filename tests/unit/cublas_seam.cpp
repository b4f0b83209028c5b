#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/bfloat16.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/linalg/eigen.hpp>

#include "support/bfloat16_matrices.hpp"
#include "support/cublas_double/device.hpp"
#include "support/matrices.hpp"
#include "support/messages.hpp"

// What linalg asks of cuBLAS and cuSOLVER, and what it says when they fail. That the answers are right is what
// linalg_*.cpp test, against the same double.
namespace matrixfsdp {
namespace {

using cublas_double::control;
using linalg::DecompositionScratch;
using linalg::DecompositionWorkspace;
using linalg::Math;
using linalg::Op;
using test::BfloatMatrix;
using test::integers;
using test::message_of;
using test::Strided;

class CublasSeam : public ::testing::Test {
 protected:
  void SetUp() override { cublas_double::reset(); }
  void TearDown() override {
    cublas_double::reset();
    linalg::set_math(Math::float32);
  }

  /// 3 x 5 of 4 terms.
  template <class T>
  void multiply() const {
    const Strided<T> a(integers(3, 4, 1));
    const Strided<T> b(integers(4, 5, 2));
    const Strided<T> c(3, 5);
    linalg::gemm<T>(Op::none, Op::none, 1, a.view(), b.view(), 0, c.view());
    EXPECT_FALSE(cublas_double::has_work()) << "a product is complete when the call returns";
  }
  template <class T>
  void square() const {
    const Strided<T> a(integers(3, 4, 1));
    const Strided<T> c(3, 3);
    linalg::syrk_lower<T>(Op::none, 1, a.view(), 0, c.view());
    EXPECT_FALSE(cublas_double::has_work());
  }
  template <class T>
  linalg::EigenResult decompose(std::int64_t extent) const {
    const Strided<T> a(integers(extent, extent, 3));
    return linalg::eigenvectors<T>(a.view(), make_tensor<T>("values", extent),
                                   DecompositionWorkspace<T>(DecompositionScratch::for_eigenvectors(extent)));
  }
  template <class T>
  void orthogonalize_rows() const {
    const Strided<T> a(integers(3, 5, 4));
    linalg::orthonormal_rows<T>(a.view(), DecompositionWorkspace<T>(DecompositionScratch::for_orthonormal_rows(3)));
    EXPECT_FALSE(cublas_double::has_work());
  }
};

TEST_F(CublasSeam, EachRoutineIsCalledOnce) {
  multiply<float>();
  multiply<double>();
  square<float>();
  square<double>();
  EXPECT_TRUE(decompose<float>(4).ok());
  EXPECT_TRUE(decompose<double>(4).ok());
  orthogonalize_rows<float>();
  orthogonalize_rows<double>();
  EXPECT_EQ(control().calls,
            "cublasSgemm cublasDgemm cublasSsyrk cublasDsyrk cusolverDnSsyevd cusolverDnDsyevd cusolverDnSgeqrf "
            "cusolverDnSorgqr cusolverDnDgeqrf cusolverDnDorgqr ");
  EXPECT_EQ(control().refused, 0);
}

// A symmetric product is many products, in the order in which they were started.
TEST_F(CublasSeam, ASymmetricProductWaitsBeforeItMirrors) {
  const Strided<float> a(reference::Dense(200, 200));
  const Strided<float> c(200, 200);
  linalg::symmetric_product<float>(a.view(), a.view(), c.view());
  EXPECT_FALSE(cublas_double::has_work());
  EXPECT_EQ(c.dense().values, std::vector<double>(200 * 200, 0.0));
}

TEST_F(CublasSeam, AFailureNamesCallStatusAndExtents) {
  control().failing_call = "cublasSgemm";
  EXPECT_EQ(message_of<DeviceError>([&] { multiply<float>(); }),
            "cublasSgemm of 3x5 with 4 terms failed with code 13: CUBLAS_STATUS_EXECUTION_FAILED");
  control().failing_call = "cublasDsyrk";
  EXPECT_EQ(message_of<DeviceError>([&] { square<double>(); }),
            "cublasDsyrk of 3x3 with 4 terms failed with code 13: CUBLAS_STATUS_EXECUTION_FAILED");
  control().failing_call = "cublasGemmEx";
  linalg::Bfloat16Products products;
  const BfloatMatrix a(integers(2, 7, 1));
  const Strided<float> c(2, 2);
  EXPECT_EQ(
      message_of<DeviceError>([&] { products.gemm(Op::none, Op::transpose, a.view(), a.view(), false, c.view()); }),
      "cublasGemmEx of 2x2 with 7 terms failed with code 13: CUBLAS_STATUS_EXECUTION_FAILED");
  control().failing_call = "cusolverDnSsyevd";
  EXPECT_EQ(message_of<DeviceError>([&] { decompose<float>(5); }),
            "cusolverDnSsyevd of 5x5 failed with code 6: CUSOLVER_STATUS_EXECUTION_FAILED");
  control().failing_call = "cusolverDnDorgqr";
  EXPECT_EQ(message_of<DeviceError>([&] { orthogonalize_rows<double>(); }),
            "cusolverDnDorgqr of 5x3 failed with code 6: CUSOLVER_STATUS_EXECUTION_FAILED");
  multiply<float>();  // the next one works
}

// Kernels fail later than the calls that start them: the wait tells, and names what was started last.
TEST_F(CublasSeam, ALostDeviceNamesWhatWasStarted) {
  control().device_is_lost = true;
  EXPECT_EQ(message_of<DeviceError>([&] { multiply<double>(); }),
            "cublasDgemm of 3x5 with 4 terms failed with code 700: an illegal memory access was encountered");
}

TEST_F(CublasSeam, HandlesThatCannotBeMadeLeaveNothingBehind) {
  std::thread([&] {
    const int before = control().open_handles;
    for (const char* call : {"cublasCreate", "cublasSetStream"}) {
      control().failing_call = call;
      EXPECT_TRUE(test::mentions(message_of<DeviceError>([&] { multiply<float>(); }), {call, "failed with code 1"}));
      EXPECT_EQ(control().open_handles, before);
    }
    multiply<float>();
    EXPECT_EQ(control().open_handles, before + 1);
    EXPECT_TRUE(decompose<float>(3).ok());
    EXPECT_EQ(control().open_handles, before + 2);
  }).join();
}

TEST_F(CublasSeam, AThreadTakesItsHandlesWithIt) {
  multiply<float>();
  const int before = control().open_handles;
  std::thread([&] {
    multiply<float>();
    EXPECT_EQ(control().open_handles, before + 1);
  }).join();
  EXPECT_EQ(control().open_handles, before);
}

TEST_F(CublasSeam, WhatCusolverSaysOfItsEndIsTold) {
  control().solver_info = 2;
  const linalg::EigenResult result = decompose<float>(4);
  EXPECT_EQ(result.status, linalg::EigenResult::Status::not_converged);
  EXPECT_EQ(result.message(),
            "eigenvectors of a 4x4 matrix of float32: cuSOLVER's ssyevd did not converge (info 2), expected info 0");
  control().solver_info = -3;
  EXPECT_EQ(message_of<ContractError>([&] { decompose<double>(4); }),
            "cusolverDnDsyevd of 4x4: cuSOLVER refuses argument 3");
  EXPECT_EQ(message_of<ContractError>([&] { orthogonalize_rows<float>(); }),
            "cusolverDnSgeqrf of 5x3: cuSOLVER refuses argument 3");
}

// 1 + 2^-12 has more bits than tf32 keeps.
TEST_F(CublasSeam, Tf32IsAskedForByName) {
  const Strided<float> a(1, 1);
  const Strided<float> one(1, 1);
  a.view()(0, 0) = 1.0F + 0x1p-12F;
  one.view()(0, 0) = 1.0F;
  const auto product = [&] {
    const Strided<float> c(1, 1);
    linalg::gemm<float>(Op::none, Op::none, 1, a.view(), one.view(), 0, c.view());
    return c(0, 0);
  };
  EXPECT_EQ(product(), 1.0F + 0x1p-12F);
  linalg::set_math(Math::tf32);
  EXPECT_EQ(product(), 1.0F);
  linalg::set_math(Math::float32);
  EXPECT_EQ(product(), 1.0F + 0x1p-12F);
}

TEST_F(CublasSeam, AnOlderDeviceHasNeitherTf32NorBfloat16) {
  EXPECT_EQ(linalg::tf32_obstacle(), "");
  EXPECT_EQ(linalg::bfloat16_obstacle(), "");
  control().capability = 7;
  EXPECT_EQ(message_of<InputError>([] { linalg::set_math(Math::tf32); }),
            "tf32: a device of compute capability 7.0 multiplies no tf32, expected 8.0 or more");
  EXPECT_EQ(message_of<InputError>([] { linalg::Bfloat16Products(); }),
            "products of bfloat16: a device of compute capability 7.0 multiplies no bfloat16, expected 8.0 or more");
  control().has_device = false;
  EXPECT_EQ(linalg::tf32_obstacle(),
            "no device is visible (no CUDA-capable device is detected), expected one that multiplies tf32");
}

TEST_F(CublasSeam, BothLibrariesAreNamed) {
  EXPECT_TRUE(test::mentions(linalg::blas_description(), {"cuBLAS 1", "cuSOLVER 1"}));
}

}  // namespace
}  // namespace matrixfsdp
