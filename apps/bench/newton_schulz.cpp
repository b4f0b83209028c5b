#include "apps/bench/newton_schulz.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/linalg/bfloat16.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "apps/bench/benchmark.hpp"

namespace matrixfsdp::bench {
namespace {

using Clock = std::chrono::steady_clock;
using linalg::Op;

template <class Body>
double seconds_of(const Body& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A matrix that owns its entries.
template <class T>
class Owned {
 public:
  Owned(std::int64_t rows, std::int64_t cols)
      : values_(make_zeros<T>("benchmark", rows * cols)), view_(values_.data(), rows, cols) {}
  [[nodiscard]] MatrixView<T> view() const { return view_; }

 private:
  Tensor<T> values_;
  MatrixView<T> view_;
};

template <class T>
std::int64_t size_of(MatrixView<T> matrix) {
  return matrix.rows * matrix.cols;
}

/// What everybody writes first, on the smaller side: A = X X^T; B = b A + c A A; X <- a X + B X, three gemms a step.
class PlainIteration {
 public:
  PlainIteration(std::int64_t rows, std::int64_t cols)
      : tall_(rows > cols),
        x_(rows, cols),
        spare_(rows, cols),
        a_(std::min(rows, cols), std::min(rows, cols)),
        b_(std::min(rows, cols), std::min(rows, cols)) {}

  void run(MatrixView<const float> input, const QuinticSequence& coefficients, int steps) {
    double squares = 0;
    for (std::int64_t i = 0; i < size_of(input); ++i)
      squares += static_cast<double>(input.data[i]) * static_cast<double>(input.data[i]);
    const auto scale = static_cast<float>(1 / std::sqrt(squares));
    for (std::int64_t i = 0; i < size_of(input); ++i)
      x_.view().data[i] = scale * input.data[i];
    for (int step = 0; step < steps; ++step)
      run_step(coefficients.at(step));
  }

 private:
  void run_step(const Quintic& step) {
    const MatrixView<float> x = x_.view();
    const MatrixView<float> a = a_.view();
    const MatrixView<float> b = b_.view();
    const MatrixView<float> spare = spare_.view();
    linalg::gemm<float>(tall_ ? Op::transpose : Op::none, tall_ ? Op::none : Op::transpose, 1, x, x, 0, a);
    std::copy_n(a.data, size_of(a), b.data);
    linalg::gemm<float>(Op::none, Op::none, static_cast<float>(step.c), a, a, static_cast<float>(step.b), b);
    std::copy_n(x.data, size_of(x), spare.data);
    linalg::gemm<float>(Op::none, Op::none, 1, tall_ ? x : b, tall_ ? b : x, static_cast<float>(step.a), spare);
    std::swap(x_, spare_);
  }

  bool tall_;
  Owned<float> x_;
  Owned<float> spare_;
  Owned<float> a_;
  Owned<float> b_;
};

double relative_distance(MatrixView<const float> result, MatrixView<const double> exact) {
  double difference = 0;
  double norm = 0;
  for (std::int64_t i = 0; i < size_of(exact); ++i) {
    const double at = static_cast<double>(result.data[i]) - exact.data[i];
    difference += at * at;
    norm += exact.data[i] * exact.data[i];
  }
  return std::sqrt(difference / norm);
}

/// One shape: the input, the exact result, and everything that is timed in turns.
class Shape {
 public:
  Shape(std::int64_t rows, std::int64_t cols, const NewtonSchulzBenchOptions& options)
      : rows_(rows),
        cols_(cols),
        options_(options),
        coefficients_(quintic_sequence(options.coefficients)),
        steps_(options.steps > 0 ? options.steps : coefficients_.default_steps),
        input_(rows, cols),
        output_(rows, cols),
        exact_(rows, cols) {
    const CounterRandom random(1, 0);
    for (std::int64_t i = 0; i < size_of(input_.view()); ++i) {
      exact_.view().data[i] = random.normal(static_cast<std::uint64_t>(i));
      input_.view().data[i] = static_cast<float>(exact_.view().data[i]);
      exact_.view().data[i] = static_cast<double>(input_.view().data[i]);
    }
    NewtonSchulzWorkspace<double> workspace;
    orthogonalize<double>(exact_.view(), exact_.view(), {NewtonSchulzAlgorithm::standard, &coefficients_, steps_},
                          workspace);
  }

  void add_rows(nlohmann::json& rows) {
    PlainIteration plain(rows_, cols_);
    const std::int64_t side = std::min(rows_, cols_);
    const Owned<float> small(side, side);
    std::vector<double> plain_seconds, gemm_gflops;
    std::vector<Timed> timed;
    for (const std::string& dtype : options_.dtypes)
      add_timed(parse_dtype(dtype), timed);
    for (std::int64_t round = 0; round <= options_.rounds; ++round) {  // the first one touches pages
      const double reference = seconds_of([&] { plain.run(input_.view(), coefficients_, steps_); });
      const double product = seconds_of(
          [&] { linalg::gemm<float>(Op::none, Op::transpose, 1, smaller_side(), smaller_side(), 0, small.view()); });
      for (Timed& one : timed)
        run(one, reference, round > 0);
      if (round == 0) continue;
      plain_seconds.push_back(reference);
      gemm_gflops.push_back(2e-9 * static_cast<double>(side * side * std::max(rows_, cols_)) / product);
    }
    const double product_rate = spread_of(gemm_gflops).median;
    rows.push_back(
        row("three gemms", DType::float32, to_json(spread_of(plain_seconds)), 1.0, nullptr, product_rate, nullptr));
    for (const Timed& one : timed) {
      const Spread seconds = spread_of(one.seconds);
      nlohmann::json figures = row(one.name, one.options.dtype, to_json(seconds), to_json(spread_of(one.ratio)),
                                   one.result.flops, product_rate, one.error);
      figures["runs"] = name_of(one.result.algorithm);
      figures["residual"] = one.residual;
      figures["gflops"] = 1e-9 * static_cast<double>(one.result.flops) / seconds.median;
      rows.push_back(std::move(figures));
    }
  }

 private:
  struct Timed {
    std::string name;
    NewtonSchulzOptions options;
    OrthogonalizeResult result;
    std::vector<double> seconds, ratio;
    double error;
    double residual;
  };

  void add_timed(DType dtype, std::vector<Timed>& timed) const {
    NewtonSchulzOptions options{NewtonSchulzAlgorithm::standard, &coefficients_, steps_};
    options.dtype = dtype;
    if (dtype == DType::bfloat16) {
      timed.push_back({"standard", options, {}, {}, {}, 0, 0});
      return;
    }
    for (const std::string& name : options_.algorithms) {
      options.algorithm = parse_newton_schulz_algorithm(name);
      timed.push_back({name, options, {}, {}, {}, 0, 0});
    }
  }

  /// The input as a wide matrix of as many entries: what X X^T costs.
  [[nodiscard]] MatrixView<const float> smaller_side() const {
    return {input_.view().data, std::min(rows_, cols_), std::max(rows_, cols_)};
  }

  void run(Timed& one, double reference, bool count) {
    const double seconds =
        seconds_of([&] { one.result = orthogonalize<float>(input_.view(), output_.view(), one.options, workspace_); });
    if (!count) {
      NewtonSchulzOptions measured = one.options;
      measured.measure_residual = true;
      one.residual = orthogonalize<float>(input_.view(), output_.view(), measured, workspace_).residual;
      one.error = relative_distance(output_.view(), exact_.view());
      return;
    }
    one.seconds.push_back(seconds);
    one.ratio.push_back(reference / seconds);
  }

  [[nodiscard]] nlohmann::json row(const std::string& algorithm, DType dtype, nlohmann::json seconds,
                                   nlohmann::json ratio, nlohmann::json flops, double gemm_gflops,
                                   nlohmann::json error) const {
    return {{"m", rows_},
            {"n", cols_},
            {"algorithm", algorithm},
            {"runs", nullptr},
            {"coefficients", coefficients_.name},
            {"steps", steps_},
            {"dtype", name_of(dtype)},
            {"threads", options_.threads},
            {"seconds", std::move(seconds)},
            {"ratio", std::move(ratio)},
            {"flops", std::move(flops)},
            {"gflops", nullptr},
            {"gemm_gflops", gemm_gflops},
            {"error", std::move(error)},
            {"residual", nullptr}};
  }

  std::int64_t rows_;
  std::int64_t cols_;
  const NewtonSchulzBenchOptions& options_;
  const QuinticSequence& coefficients_;
  int steps_;
  Owned<float> input_;
  Owned<float> output_;
  Owned<double> exact_;
  NewtonSchulzWorkspace<float> workspace_;
};

}  // namespace

int newton_schulz(Session& session, const NewtonSchulzBenchOptions& options) {
  if (session.world().size() != 1)
    throw InputError(
        fmt::format("newton-schulz: {} ranks, expected one: it measures a kernel", session.world().size()));
  if (std::count(options.dtypes.begin(), options.dtypes.end(), "bfloat16") > 0)
    linalg::require_bfloat16("--dtype bfloat16");
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [m, n] : options.shapes) {
    if (m < 1 || n < 1) throw InputError(fmt::format("newton-schulz: shape {}x{}: expected positive extents", m, n));
    Shape(m, n, options).add_rows(rows);
  }
  print("newton-schulz", session, rows,
        {"m", "n", "algorithm", "runs", "coefficients", "steps", "dtype", "threads", "seconds", "ratio", "flops",
         "gflops", "gemm_gflops", "error", "residual"},
        options.json);
  return exit_ok;
}

Command add_newton_schulz(CLI::App& app) {
  const auto options = std::make_shared<NewtonSchulzBenchOptions>();
  CLI::App* command =
      app.add_subcommand("newton-schulz",
                         "Orthogonalization of one matrix on one rank. ratio: how many times faster than three gemms "
                         "a step with the same "
                         "BLAS and as many steps, in the same rounds; gflops: products that it does; gemm_gflops: "
                         "rate of one gemm of the "
                         "shape of X X^T; error: relative distance (Frobenius) to the same polynomial in double; "
                         "residual: ||O O^T - I||_F / sqrt(m) of the result O, the "
                         "polynomial's own distance from 1 included.");
  // Not a list of pairs: CLI11 reads those by way of a second number that it may never have set, as compilers warn.
  command
      ->add_option_function<std::vector<std::int64_t>>(
          "--shape",
          [options](const std::vector<std::int64_t>& extents) {
            if (extents.size() % 2 != 0)
              throw CLI::ValidationError("--shape", fmt::format("{} numbers: expected pairs", extents.size()));
            options->shapes.clear();
            for (std::size_t i = 0; i + 1 < extents.size(); i += 2)
              options->shapes.emplace_back(extents[i], extents[i + 1]);
          },
          "Rows and columns; one or more pairs")
      ->type_size(2)
      ->type_name("INT INT");
  command->add_option("--algorithm", options->algorithms)->capture_default_str();
  command
      ->add_option("--dtype", options->dtypes, "One or more; bfloat16: the standard algorithm, against float32 gemms")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  command->add_option("--coefficients", options->coefficients)->capture_default_str();
  command->add_option("--steps", options->steps, "0: the coefficients' own number")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--threads", options->threads)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--rounds", options->rounds)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_flag("--json", options->json);
  return make_command<NewtonSchulzBenchOptions>(command, options, &newton_schulz);
}

}  // namespace matrixfsdp::bench
