#pragma once

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
