// Inside a program that already has MPI, Kokkos, and a mesh of data-parallel x tensor-parallel ranks of its own: two
// models in one process, one sharded over a data-parallel group of the mesh, one over all ranks. Pairs of neighbouring
// ranks share the hidden layer of the first (tensor parallelism, with the program's own MPI calls).
// Run: mpiexec -n 4 mesh
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/plan/planner.hpp>

using namespace matrixfsdp;

namespace {

constexpr std::size_t inputs = 4, hidden = 32, samples = 64;

struct Mesh {
  int tensor_size = 1, tensor_rank = 0, data_rank = 0;
  MPI_Comm tensor = MPI_COMM_NULL;  // ranks that share one copy of the model
  MPI_Comm data = MPI_COMM_NULL;    // ranks that hold the same part of it, and see different samples
};

Mesh make_mesh() {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Mesh mesh;
  mesh.tensor_size = size % 2 == 0 ? 2 : 1;
  mesh.tensor_rank = rank % mesh.tensor_size;
  mesh.data_rank = rank / mesh.tensor_size;
  MPI_Comm_split(MPI_COMM_WORLD, mesh.data_rank, rank, &mesh.tensor);
  MPI_Comm_split(MPI_COMM_WORLD, mesh.tensor_rank, rank, &mesh.data);
  return mesh;
}

/// This rank's part of `out . tanh(up x)`. Names differ from part to part, so that first values do.
ModelSpec part_of_network(const Mesh& mesh) {
  const std::string name = "part" + std::to_string(mesh.tensor_rank);
  const std::int64_t rows = hidden / mesh.tensor_size;
  ParameterSpec up{name + ".up", {rows, inputs}};
  ParameterSpec out{name + ".out", {rows}};
  up.initialization.standard_deviation = 0.5;
  out.initialization.standard_deviation = 0.2;
  ModelSpec spec;
  spec.units = {{name, {up, out}}};
  return spec;
}

/// A linear model of the same values, for comparison: it has to stay worse.
ModelSpec linear() {
  ModelSpec spec;
  spec.units = {{"linear", {{"linear.weight", {inputs}}}}};
  return spec;
}

float input_at(int group, int step, std::size_t sample, std::size_t k) {
  if (k + 1 == inputs) return 1;  // in place of a bias
  const double index = static_cast<double>((group * 1000 + step) * samples + sample) + 1;
  return static_cast<float>(2 * std::fmod(index * std::sqrt(2.0 + 3.0 * static_cast<double>(k)), 1.0) - 1);
}
float value_of(const float* x) {
  return x[0] * x[1] + x[2];
}

/// Adds the gradient of the mean squared error of this group's samples, and returns that error.
double network_pass(const Mesh& mesh, int step, const UnitTensors<float>& weights, UnitTensors<float>& gradients) {
  const std::size_t rows = weights[1].size();
  std::vector<float> x(samples * inputs), h(samples * rows), y(samples);
  for (std::size_t s = 0; s < samples; ++s) {
    for (std::size_t k = 0; k < inputs; ++k)
      x[s * inputs + k] = input_at(mesh.data_rank, step, s, k);
    for (std::size_t r = 0; r < rows; ++r) {
      float sum = 0;
      for (std::size_t k = 0; k < inputs; ++k)
        sum += weights[0](r * inputs + k) * x[s * inputs + k];
      h[s * rows + r] = std::tanh(sum);
      y[s] += weights[1](r) * h[s * rows + r];
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, y.data(), static_cast<int>(samples), MPI_FLOAT, MPI_SUM, mesh.tensor);
  double loss = 0;
  for (std::size_t s = 0; s < samples; ++s) {
    const float residual = y[s] - value_of(&x[s * inputs]);
    loss += static_cast<double>(residual) * residual / samples;
    for (std::size_t r = 0; r < rows; ++r) {
      const float slope = 2 * residual / samples * weights[1](r) * (1 - h[s * rows + r] * h[s * rows + r]);
      gradients[1](r) += 2 * residual / samples * h[s * rows + r];
      for (std::size_t k = 0; k < inputs; ++k)
        gradients[0](r * inputs + k) += slope * x[s * inputs + k];
    }
  }
  return loss;
}

double linear_pass(int rank, int step, const UnitTensors<float>& weights, UnitTensors<float>& gradients) {
  double loss = 0;
  for (std::size_t s = 0; s < samples; ++s) {
    std::vector<float> x(inputs);
    float residual = 0;
    for (std::size_t k = 0; k < inputs; ++k) {
      x[k] = input_at(rank, step, s, k);
      residual += weights[0](k) * x[k];
    }
    residual -= value_of(x.data());
    loss += static_cast<double>(residual) * residual / samples;
    for (std::size_t k = 0; k < inputs; ++k)
      gradients[0](k) += 2 * residual / samples * x[k];
  }
  return loss;
}

double mean_loss(Communicator& communicator, double loss) {
  return fold_losses(communicator, {loss}) / communicator.size();
}

// README: begin
int train(const Mesh& mesh) {
  Session session = Session::adopt(MPI_COMM_WORLD);  // MPI and Kokkos stay ours
  Communicator data = mpi::duplicate(mesh.data);     // its messages cannot meet ours
  Communicator& world = session.world();
  const ModelSpec network_spec = part_of_network(mesh), linear_spec = linear();
  ShardedModel network(data, network_spec, make_plan(network_spec, data.size()), {});
  ShardedModel baseline(world, linear_spec, make_plan(linear_spec, world.size()), {});
  // README: end
  RoutingOptions options;
  options.adamw.learning_rate = 1e-2;
  const auto network_optimizer = make_optimizer(network.trainable(), options);
  const auto baseline_optimizer = make_optimizer(baseline.trainable(), options);

  double network_loss = 0, baseline_loss = 0;
  for (int step = 1; step <= 150; ++step) {
    for (ShardedModel* model : {&network, &baseline}) {
      model->begin_step();
      model->begin_pass();
      model->unshard(0, Phase::forward);
    }
    network_loss = mean_loss(data, network_pass(mesh, step, network.weights(0), network.gradients(0)));
    baseline_loss = mean_loss(world, linear_pass(world.rank(), step, baseline.weights(0), baseline.gradients(0)));
    for (ShardedModel* model : {&network, &baseline}) {
      model->reshard(0);
      model->reduce(0);
    }
    const double schedule = 1 - (step - 1) / 150.0;
    if (gradient_norm(network).finite) network_optimizer->step({1.0, schedule, step});
    if (gradient_norm(baseline).finite) baseline_optimizer->step({1.0, schedule, step});
    network.weights_changed();
    baseline.weights_changed();
  }
  if (world.rank() == 0) {
    std::printf("%d x %d ranks: error of the network %.4f, of the linear model %.4f\n", data.size(), mesh.tensor_size,
                network_loss, baseline_loss);
  }
  return network_loss < 0.02 && baseline_loss > 0.05 ? exit_ok : exit_different;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  Kokkos::initialize(argc, argv);
  Mesh mesh = make_mesh();
  const int code = run_main([&] { return train(mesh); });
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended != 0) return code;  // run_main has told an error that all ranks have, and has ended both
  MPI_Comm_free(&mesh.tensor);
  MPI_Comm_free(&mesh.data);
  Kokkos::finalize();
  MPI_Finalize();
  return code;
}
