#!/usr/bin/env python3
"""Prints muon.hpp: what the public implementations of Muon compute for the inputs below.

    python3 -m venv VENV && VENV/bin/pip install torch          # 2.9 or newer: torch.optim.Muon
    git clone https://github.com/KellerJordan/Muon MUON               # made with 857d1ad
    VENV/bin/python tests/support/golden/muon.py MUON/muon.py | clang-format > tests/support/golden/muon.hpp

Both round to bfloat16 inside. The figures in double come from the same code with that cast turned into one to double.
Inputs are multiples of 1/8 that a loop of four lines gives in C++ too: entry(seed, i, j).
"""
import importlib.util
import sys

import torch

SHAPES = [(4, 6), (6, 4), (5, 5), (1, 7)]


def matrix(seed, rows, cols):
    entries = [[((7 * i + 13 * j + 5 * i * j + seed * (i + 2 * j + 3)) % 17 - 8) / 8 for j in range(cols)] for i in range(rows)]
    return torch.tensor(entries, dtype=torch.float64)


class InDouble:
    """While it is entered, casts to bfloat16 are casts to double."""

    def __enter__(self):
        self.dtype, self.cast = torch.bfloat16, torch.Tensor.bfloat16
        torch.bfloat16, torch.Tensor.bfloat16 = torch.float64, torch.Tensor.double

    def __exit__(self, *unused):
        torch.bfloat16, torch.Tensor.bfloat16 = self.dtype, self.cast


def train(rows, cols, dtype, scale):
    weight = torch.nn.Parameter(matrix(1, rows, cols).to(dtype))
    optimizer = torch.optim.Muon([weight])
    for step in range(3):
        weight.grad = (matrix(2 + step, rows, cols) * scale).to(dtype)
        optimizer.step()
    return weight.detach()


def array(name, comment, values):
    numbers = ", ".join(f"{value:.17g}" for value in values.double().flatten().tolist())
    print(f"/// {comment}\ninline const std::vector<double> {name}{{{numbers}}};\n")


def main():
    spec = importlib.util.spec_from_file_location("keller_jordan", sys.argv[1])
    keller_jordan = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(keller_jordan)
    torch.set_num_threads(1)
    print("#pragma once\n\n#include <vector>\n")
    print(f"/// Printed by muon.py beside it, with torch {torch.__version__.split('+')[0]}. Row by row.")
    print("namespace matrixfsdp::golden {\n")
    for rows, cols in SHAPES:
        where = f"{rows}x{cols}"
        with InDouble():
            direction = keller_jordan.zeropower_via_newtonschulz5(matrix(1, rows, cols), steps=5)
            trained = train(rows, cols, torch.float64, 1.0)
            tiny = train(rows, cols, torch.float64, 2.0**-30)
        array(f"direction_{where}", f"zeropower_via_newtonschulz5 of matrix 1 in double", direction)
        array(f"rounded_{where}", f"The same in bfloat16",
              keller_jordan.zeropower_via_newtonschulz5(matrix(1, rows, cols), steps=5))
        array(f"trained_{where}", "matrix 1 after three steps of torch.optim.Muon with gradients 2 to 4, in double", trained)
        array(f"tiny_{where}", "The same with gradients times 2^-30", tiny)
    print("}  // namespace matrixfsdp::golden")


if __name__ == "__main__":
    main()
