#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/linalg/workers.hpp>

#include "src/linalg/shared_products.hpp"
#include "src/tensor/own_kernels.hpp"

extern "C" {
__attribute__((weak)) int openblas_get_num_threads();
}

namespace matrixfsdp {
namespace {

using linalg::Op;
using linalg::Workers;

std::size_t threads_of_this_process() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    static_cast<void>(task);
    ++count;
  }
  return count;
}

/// The system may list a thread that has ended for a moment longer.
std::size_t settled_threads() {
  std::size_t count = threads_of_this_process();
  for (std::size_t before = 0; count != before;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    before = std::exchange(count, threads_of_this_process());
  }
  return count;
}

TEST(LinalgWorkers, OneStartsNoThreadAndMoreStartTheRest) {
  std::thread([] {}).join();  // ThreadSanitizer has one of its own from the first one on
  const std::size_t before = settled_threads();
  {
    Workers one(1);
    one.run([](std::int64_t) {});
    EXPECT_EQ(settled_threads(), before);
    const Workers three(3);
    EXPECT_EQ(settled_threads(), before + 2);
    EXPECT_EQ(three.count(), 3);
  }
  EXPECT_EQ(settled_threads(), before);
  EXPECT_THROW(Workers(0), ContractError);
}

TEST(LinalgWorkers, EachPartRunsOnceOnAThreadOfItsOwn) {
  for (const int count : {1, 2, 3, 5}) {
    Workers workers(count);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::thread::id> ids(static_cast<std::size_t>(count));
      std::vector<int> times(ids.size(), 0);
      workers.run([&](std::int64_t worker) {
        ids[static_cast<std::size_t>(worker)] = std::this_thread::get_id();
        ++times[static_cast<std::size_t>(worker)];
      });
      EXPECT_EQ(ids.front(), std::this_thread::get_id());
      EXPECT_EQ(std::set<std::thread::id>(ids.begin(), ids.end()).size(), ids.size());
      ASSERT_EQ(times, std::vector<int>(ids.size(), 1));
    }
  }
}

TEST(LinalgWorkers, EachPieceIsDoneOnceHoweverManyShare) {
  for (const int count : {1, 2, 3, 5}) {
    Workers workers(count);
    for (int round = 0; round < 50; ++round) {
      std::vector<std::vector<std::atomic<int>>> done;
      done.reserve(static_cast<std::size_t>(count));
      for (int worker = 0; worker < count; ++worker)
        done.emplace_back(static_cast<std::size_t>(7 * worker));
      workers.run([&](std::int64_t worker) {
        std::vector<std::atomic<int>>& own = done[static_cast<std::size_t>(worker)];
        workers.share(static_cast<std::int64_t>(own.size()),
                      [&](std::int64_t piece) { ++own[static_cast<std::size_t>(piece)]; });
      });
      for (const auto& own : done) {
        for (const std::atomic<int>& times : own)
          ASSERT_EQ(times, 1);
      }
    }
  }
}

// Two pieces that wait for each other: a worker without a part of its own must take one.
TEST(LinalgWorkers, WhoHasNothingToDoHelps) {
  Workers workers(3);
  std::mutex mutex;
  std::condition_variable arrived;
  int inside = 0;
  bool met = true;
  workers.run([&](std::int64_t worker) {
    if (worker != 1) return;
    workers.share(2, [&](std::int64_t) {
      std::unique_lock lock(mutex);
      ++inside;
      arrived.notify_all();
      met = arrived.wait_for(lock, std::chrono::seconds(20), [&] { return inside == 2; }) && met;
    });
  });
  EXPECT_TRUE(met);
}

TEST(LinalgWorkers, ExceptionsReachTheCallerAndTheNextRoundRuns) {
  for (const int count : {1, 3}) {
    Workers workers(count);
    try {
      workers.run([&](std::int64_t worker) { throw std::runtime_error("part " + std::to_string(worker)); });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "part 0");
    }
    std::atomic<int> begun = 0;
    EXPECT_THROW(workers.run([&](std::int64_t worker) {
      if (worker == 0) {
        workers.share(1000, [&](std::int64_t) {
          ++begun;
          throw InputError("a piece");
        });
      }
    }),
                 InputError);
    EXPECT_LE(begun, count);
    EXPECT_THROW(workers.run([&](std::int64_t worker) {
      if (worker == 0) workers.run([](std::int64_t) {});
    }),
                 ContractError);
    std::atomic<int> parts = 0;
    workers.run([&](std::int64_t) { ++parts; });
    EXPECT_EQ(parts, count);
  }
}

TEST(LinalgWorkers, ProductsUseOneThreadAndAfterwardsAsManyAsBefore) {
  if (openblas_get_num_threads == nullptr) GTEST_SKIP() << "this BLAS does not say how many threads it uses";
  linalg::set_threads(2);
  for (const int count : {1, 2}) {
    Workers workers(count);
    std::atomic<int> most = 0;
    workers.run([&](std::int64_t) { most = std::max<int>(most, openblas_get_num_threads()); });
    EXPECT_EQ(most, 1);
    EXPECT_EQ(openblas_get_num_threads(), 2);
  }
  linalg::set_threads(1);
}

TEST(LinalgWorkers, KernelsRunOnTheirOwnThreadWhereThereAreSeveral) {
  EXPECT_FALSE(detail::runs_own_kernels());
  for (const int count : {1, 2}) {
    Workers workers(count);
    std::atomic<int> own = 0;
    workers.run([&](std::int64_t) { own += detail::runs_own_kernels() ? 1 : 0; });
    EXPECT_EQ(own, count == 1 ? 0 : 2);
    EXPECT_FALSE(detail::runs_own_kernels());
  }
}

TEST(LinalgWorkers, PiecesGoByWorkAndExtent) {
  using linalg::detail::piece_count;
  constexpr std::int64_t unit = std::int64_t{1} << 30;
  EXPECT_EQ(piece_count(0, 0), 1);
  EXPECT_EQ(piece_count(2 * unit - 1, 4096), 1);
  EXPECT_EQ(piece_count(2 * unit, 4096), 2);
  EXPECT_EQ(piece_count(9 * unit, 512), 4);
  EXPECT_EQ(piece_count(1000 * unit, 1 << 20), 64);
}

struct Owned {
  Owned(std::int64_t rows, std::int64_t cols, std::uint64_t seed)
      : values(make_tensor<float>("test", rows * cols)), view(values.data(), rows, cols) {
    const CounterRandom random(seed, 0);
    for (std::int64_t i = 0; i < rows * cols; ++i)
      values.data()[i] = static_cast<float>(random.uniform(static_cast<std::uint64_t>(i))) - 0.5F;
  }
  Tensor<float> values;
  MatrixView<float> view;
};

/// Of the lower triangle, or of all.
double largest_difference(const MatrixView<float>& a, const MatrixView<float>& b, bool lower) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < (lower ? i + 1 : a.cols); ++j)
      largest = std::max(largest, std::abs(static_cast<double>(a(i, j)) - static_cast<double>(b(i, j))));
  }
  return largest;
}

/// A product in pieces equals the plain one up to rounding, and its bits do not depend on the number of workers.
template <class Plain, class Shared>
void expect_pieces(std::int64_t rows, std::int64_t cols, bool lower, const Plain& plain, const Shared& shared) {
  const Owned expected(rows, cols, 7);
  plain(expected.view);
  std::vector<float> first;
  for (const int count : {1, 2, 3}) {
    const Owned result(rows, cols, 8);
    Workers workers(count);
    workers.run([&](std::int64_t worker) {
      if (worker == 0) shared(workers, result.view);
    });
    EXPECT_LE(largest_difference(result.view, expected.view, lower), 1e-4);
    std::vector<float> values(result.values.data(), result.values.data() + result.values.extent(0));
    if (first.empty()) first = values;
    EXPECT_TRUE(values == first) << count << " workers";
  }
}

TEST(LinalgWorkers, SharedProductsAreThePlainOnes) {
  constexpr std::int64_t m = 1000;
  constexpr std::int64_t n = 2400;
  ASSERT_GT(linalg::detail::piece_count(2 * m * m * n, n), 1);
  ASSERT_GT(linalg::detail::piece_count(m * m * n, m), 1);
  const Owned square(m, m, 1);
  const Owned wide(m, n, 2);
  const Owned tall(n, m, 3);
  expect_pieces(
      m, n, false, [&](auto c) { linalg::gemm<float>(Op::none, Op::none, 1, square.view, wide.view, 0, c); },
      [&](Workers& workers, auto c) { linalg::detail::shared_gemm<float>(workers, square.view, wide.view, c); });
  expect_pieces(
      n, m, false, [&](auto c) { linalg::gemm<float>(Op::none, Op::none, 1, tall.view, square.view, 0, c); },
      [&](Workers& workers, auto c) { linalg::detail::shared_gemm<float>(workers, tall.view, square.view, c); });
  expect_pieces(
      m, m, true, [&](auto c) { linalg::syrk_lower<float>(Op::none, 1, wide.view, 0, c); },
      [&](Workers& workers, auto c) {
        linalg::detail::shared_syrk_lower<float>(workers, Op::none, wide.view, c);
        linalg::mirror<float>(c);
      });
  expect_pieces(
      m, m, true, [&](auto c) { linalg::syrk_lower<float>(Op::transpose, 1, tall.view, 0, c); },
      [&](Workers& workers, auto c) {
        linalg::detail::shared_syrk_lower<float>(workers, Op::transpose, tall.view, c);
        linalg::mirror<float>(c);
      });
}

TEST(LinalgWorkers, SharedSymmetricProductIsThePlainOne) {
  constexpr std::int64_t m = 1400;
  ASSERT_GT(linalg::detail::piece_count(m * m * m, m), 1);
  const Owned root(m, 300, 4);
  const Owned symmetric(m, m, 5);
  linalg::syrk<float>(Op::none, 0.05F, root.view, 0, symmetric.view);
  expect_pieces(
      m, m, false, [&](auto c) { linalg::symmetric_product<float>(symmetric.view, symmetric.view, c); },
      [&](Workers& workers, auto c) {
        linalg::detail::shared_symmetric_product<float>(workers, symmetric.view, symmetric.view, c);
      });
}

}  // namespace
}  // namespace matrixfsdp
