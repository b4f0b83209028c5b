"""Regenerates golden_optimizers.hpp: weights after some steps of the public Shampoo and SOAP.

Needs Python 3.11 or later, torch, and both references on the path, as their authors publish them:
  soap.py              github.com/nikhilvyas/SOAP at a1e5535
  distributed_shampoo  github.com/facebookresearch/optimizers at f606606
  PYTHONPATH=WHERE_THEY_ARE python3 tests/support/golden_optimizers.py > tests/support/golden_optimizers.hpp
Weights and gradients are those of a congruential generator that the test repeats, so the header holds results only.
"""

import logging

import torch
from distributed_shampoo.distributed_shampoo import DistributedShampoo
from distributed_shampoo.shampoo_types import (
    AdamPreconditionerConfig,
    SGDPreconditionerConfig,
    SingleDeviceDistributedConfig,
)
from soap import SOAP

logging.disable(logging.WARNING)
torch.set_num_threads(1)


class Numbers:
    """x <- (1103515245 x + 12345) mod 2^31, from 1 on; numbers x / 2^31 - 1/2, exact in float32 to 24 bits."""

    def __init__(self):
        self.x = 1

    def matrix(self, rows, cols):
        values = []
        for _ in range(rows * cols):
            self.x = (1103515245 * self.x + 12345) % 2**31
            values.append((self.x >> 7) / 2**24 - 0.5)
        return torch.tensor(values, dtype=torch.float32).reshape(rows, cols)


def run(rows, cols, steps, make, after_first=None):
    numbers = Numbers()
    weight = torch.nn.Parameter(numbers.matrix(rows, cols))
    optimizer = make([weight])
    for step in range(steps):
        weight.grad = numbers.matrix(rows, cols)
        optimizer.step()
        if step == 0 and after_first is not None:
            after_first(optimizer.state[weight])
    return weight.detach()


def show(name, tensor):
    values = ", ".join(f"{value:.9g}" for value in tensor.reshape(-1).tolist())
    print(f"inline const std::vector<double> {name}{{{values}}};")


def shampoo(**options):
    def make(parameters):
        return DistributedShampoo(
            parameters,
            lr=0.1,
            use_bias_correction=True,
            distributed_config=SingleDeviceDistributedConfig(target_parameter_dimensionality=2),
            **options,
        )

    return make


def shampoo_cases():
    adam = AdamPreconditionerConfig(beta2=0.95, epsilon=1e-8)
    common = dict(betas=(0.9, 0.95), epsilon=1e-4, weight_decay=0.25)
    show("shampoo_adam", run(5, 3, 9, shampoo(grafting_config=adam, precondition_frequency=2, start_preconditioning_step=3, **common)))
    show("shampoo_sgd", run(5, 3, 9, shampoo(grafting_config=SGDPreconditionerConfig(), precondition_frequency=3, beta3=0.5, **common)))
    show("shampoo_sum", run(4, 4, 6, shampoo(betas=(0.9, 1.0), epsilon=1e-4, precondition_frequency=1, start_preconditioning_step=2)))
    show("shampoo_blocks", run(5, 7, 8, shampoo(grafting_config=adam, precondition_frequency=4, max_preconditioner_dim=3, **common)))


def soap_cases():
    def make(parameters):
        return SOAP(parameters, lr=0.1, betas=(0.9, 0.95), shampoo_beta=0.8, weight_decay=0.25, precondition_frequency=2)

    show("soap_square", run(4, 4, 9, make))
    bases = []
    weight = run(5, 3, 9, make, lambda state: bases.extend(q.T.clone() for q in state["Q"]))
    show("soap_left_basis", bases[0])
    show("soap_right_basis", bases[1])
    show("soap_tall", weight)


print("""#pragma once

#include <vector>

/// Weights that the public Shampoo and SOAP give; written by golden_optimizers.py, which says of what and how. Bases:
/// those of "soap_tall" after its first call, rows are eigenvectors.
namespace matrixfsdp::golden {

// clang-format off""")
shampoo_cases()
soap_cases()
print("""// clang-format on

}  // namespace matrixfsdp::golden""")
