#pragma once

/// @file
/// Everything that a training program needs: specification and plan, the sharded model, optimizers, the transformer,
/// checkpoints and data. Include single headers instead where compile time matters.
#include <matrixfsdp/baselines/strategy.hpp>
#include <matrixfsdp/checkpoint/checkpoint.hpp>
#include <matrixfsdp/checkpoint/saver.hpp>
#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/dataset/batches.hpp>
#include <matrixfsdp/dataset/token_data.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/nn/transformer.hpp>
#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/optim/schedule.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>
#include <matrixfsdp/plan/transformer.hpp>

/// @namespace matrixfsdp
/// Models, plans, tensors, optimizers, communication, and the sharded model. A folder of headers is a module, lowest
/// first: core, plan, tensor, linalg, orthogonalize, parameter, optim, comm, fsdp, baselines; nn, schema, checkpoint and
/// dataset have namespaces of their own. A module includes none above it.

/// @namespace matrixfsdp::linalg
/// Products of matrices: the seam over BLAS.

/// @namespace matrixfsdp::mpi
/// Communicators from MPI's, and back to it.

/// @namespace matrixfsdp::nccl
/// Segments over NCCL.

/// @namespace matrixfsdp::nn
/// Layers and losses of transformers, forward and backward, float and double.

/// @namespace matrixfsdp::io
/// What is on disk: checkpoints, data, profiles.
