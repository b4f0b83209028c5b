#include "apps/train/matrix_options.hpp"

#include <functional>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>

#include "apps/train/unit_policies.hpp"

namespace matrixfsdp::train {
namespace {

std::map<std::string, std::function<void()>> optimizer_choices(RoutingOptions& routing) {
  std::map<std::string, std::function<void()>> choices;
  for (const MatrixOptimizer optimizer : matrix_optimizers())
    choices[std::string(name_of(optimizer))] = [&routing, optimizer] { routing.matrices = optimizer; };
  return choices;
}

void give(double given, double& target) {
  if (given >= 0) target = given;
}

}  // namespace

MatrixOptions::MatrixOptions(apps::OptionReader& reader, RoutingOptions& routing) : routing_(routing) {
  MuonOptions& muon = routing.muon;
  const std::vector<MatrixOptimizer> factored{MatrixOptimizer::shampoo, MatrixOptimizer::soap};
  reader.choice("--optimizer", "Of matrices; tails are always on AdamW", "muon", optimizer_choices(routing));
  // Before the others, so that what is given beside it replaces its values.
  reader.choice("--muon-preset",
                "torch: the values of torch.optim.Muon for --lr, --weight-decay, --momentum, --scale-rule, "
                "--ns-algorithm, --ns-coefficients and --ns-steps, where they are not given, and its divisor "
                "max(norm, 1e-7); it computes with --ns-dtype bfloat16",
                "none", {{"none", [] {}}, {"torch", [this, &muon] {
                                             muon = torch_muon_options();
                                             coefficients_ = muon.newton_schulz.coefficients->name;
                                             weight_decay_ = muon.weight_decay;
                                           }}});
  reader
      .real("--lr", learning_rate_, 0, 1e3,
            fmt::format("Base learning rate of matrices; by default Muon's {}, Shampoo's {}, SOAP's {}",
                        muon.learning_rate, routing.shampoo.learning_rate, routing.soap.learning_rate))
      ->default_str("");
  reader.real("--adamw-lr", routing.adamw.learning_rate, 0, 1e3, "Base learning rate of AdamW");
  reader.real("--weight-decay", weight_decay_, 0, 1e3, "Decoupled, of matrices and of tails with two dimensions");
  reader.real("--momentum", muon.momentum, 0, 1, "Of Muon");
  reader.flag("!--no-nesterov", muon.nesterov, "Plain momentum");
  reader.text("--scale-rule", "Scale of Muon's update: original, match-rms-adamw, spectral, none", "original",
              [&muon](const std::string& value) { muon.scale = parse_scale_rule(value); });
  reader.text(
      "--ns-algorithm", "Newton-Schulz: auto, standard, gram, gram-no-restart", "auto",
      [&muon](const std::string& value) { muon.newton_schulz.algorithm = parse_newton_schulz_algorithm(value); });
  reader.text("--ns-coefficients", fmt::format("{}", fmt::join(quintic_sequence_names(), ", ")), "polar-express",
              [this](const std::string& value) {
                quintic_sequence(value);
                coefficients_ = value;
              });
  reader.text(
      "--ns-dtype", "Newton-Schulz steps in float32, or bfloat16 on a CPU that has instructions for it: standard ones",
      "float32", [&muon](const std::string& value) { muon.newton_schulz.dtype = parse_wire("--ns-dtype", value); });
  reader.integer("--ns-steps", newton_schulz_steps_, 1, "Newton-Schulz steps; by default those of the coefficients")
      ->default_str("");
  apps::add_preconditioner_options(reader, cost_, known_);
  known_.add(reader
                 .integer("--start-preconditioning-step", start_step_, 1,
                          "Of Shampoo: the first step that computes roots; by default --precondition-frequency")
                 ->default_str(""),
             {MatrixOptimizer::shampoo});
  const auto factor = [&](const char* name, double& target, double most, const std::string& help) {
    return reader.real(name, target, 0, most, help)->default_str("");
  };
  known_.add(factor("--beta1", beta1_, 1, "Of the first average of Shampoo (by default 0.9) and SOAP (0.95)"),
             factored);
  known_.add(factor("--beta2", beta2_, 1, "Of Shampoo's factors (0.95; 1: their sum) and SOAP's second moment (0.95)"),
             factored);
  known_.add(factor("--factor-beta", factor_beta_, 1, "Of SOAP's factors; by default --beta2"),
             {MatrixOptimizer::soap});
  known_.add(factor("--matrix-epsilon", epsilon_, 1, "Of Shampoo's roots (by default 1e-12) and SOAP's update (1e-8)"),
             factored);
  for (const char* name : {"--muon-preset", "--momentum", "--no-nesterov", "--scale-rule", "--ns-algorithm",
                           "--ns-coefficients", "--ns-dtype", "--ns-steps"})
    known_.add(reader.option(name), {MatrixOptimizer::muon});
}

void MatrixOptions::resolve() {
  known_.check(routing_.matrices);
  validate(cost_);
  MuonOptions& muon = routing_.muon;
  muon.newton_schulz.coefficients = &quintic_sequence(coefficients_);
  muon.newton_schulz.steps = newton_schulz_steps_ > 0 ? static_cast<int>(newton_schulz_steps_)
                                                      : muon.newton_schulz.coefficients->default_steps;
  give(learning_rate_, muon.learning_rate);
  ShampooOptions& shampoo = routing_.shampoo;
  shampoo.preconditioner = cost_;
  give(learning_rate_, shampoo.learning_rate);
  give(beta1_, shampoo.beta1);
  give(beta2_, shampoo.beta2);
  give(epsilon_, shampoo.epsilon);
  if (start_step_ > 0) shampoo.start_step = start_step_;
  SoapOptions& soap = routing_.soap;
  soap.preconditioner = cost_;
  give(learning_rate_, soap.learning_rate);
  give(beta1_, soap.beta1);
  give(beta2_, soap.beta2);
  give(factor_beta_, soap.factor_beta);
  give(epsilon_, soap.epsilon);
  muon.weight_decay = shampoo.weight_decay = soap.weight_decay = routing_.adamw.weight_decay = weight_decay_;
}

nlohmann::json preconditioner_json(const RoutingOptions& routing) {
  const ShampooOptions& shampoo = routing.shampoo;
  const SoapOptions& soap = routing.soap;
  if (routing.matrices == MatrixOptimizer::shampoo) {
    return {
        {"beta1", shampoo.beta1},
        {"beta2", shampoo.beta2},
        {"epsilon", shampoo.epsilon},
        {"precondition_frequency", shampoo.preconditioner.frequency},
        {"start_preconditioning_step", shampoo.start_step < 0 ? shampoo.preconditioner.frequency : shampoo.start_step},
        {"block_size", shampoo.preconditioner.block_size},
        {"max_preconditioner_dimension", shampoo.preconditioner.largest_dimension},
        {"grafting", name_of(shampoo.preconditioner.grafting)}};
  }
  if (routing.matrices == MatrixOptimizer::soap) {
    return {{"beta1", soap.beta1},
            {"beta2", soap.beta2},
            {"factor_beta", soap.factor_beta < 0 ? soap.beta2 : soap.factor_beta},
            {"epsilon", soap.epsilon},
            {"precondition_frequency", soap.preconditioner.frequency},
            {"max_preconditioner_dimension", soap.preconditioner.largest_dimension}};
  }
  return nullptr;
}

}  // namespace matrixfsdp::train
