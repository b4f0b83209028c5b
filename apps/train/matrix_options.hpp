#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include <matrixfsdp/optim/routing.hpp>

#include "apps/option_reader.hpp"
#include "apps/preconditioner_options.hpp"

namespace matrixfsdp::train {

/// Options of the optimizer of matrices, as they are given: what is not given is that optimizer's default.
class MatrixOptions {
 public:
  /// Adds the options to `reader`, which must not outlive this.
  MatrixOptions(apps::OptionReader& reader, RoutingOptions& routing);
  MatrixOptions(const MatrixOptions&) = delete;
  MatrixOptions& operator=(const MatrixOptions&) = delete;

  /// After parsing: fills in the routing's options. Throws InputError for an option that the optimizer does not read,
  /// and as validate(PreconditionerCost) does.
  void resolve();

 private:
  static constexpr double not_given = -1;

  RoutingOptions& routing_;
  apps::OptimizerOptions known_;
  PreconditionerCost cost_;
  std::string coefficients_ = "polar-express";
  std::int64_t newton_schulz_steps_ = 0;
  double learning_rate_ = not_given;
  double weight_decay_ = 0.01;
  double beta1_ = not_given;
  double beta2_ = not_given;
  double factor_beta_ = not_given;
  double epsilon_ = not_given;
  std::int64_t start_step_ = 0;
};

/// What checkpoints and metrics record of Shampoo or SOAP; null for the others.
nlohmann::json preconditioner_json(const RoutingOptions& routing);

}  // namespace matrixfsdp::train
