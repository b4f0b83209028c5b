"""What h5py and safetensors see of our files, and what we see of theirs: interop.py PROGRAM GOLDEN FOLDER."""

import json
import subprocess
import sys

import h5py
import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

program, golden, folder = sys.argv[1:]


def golden_value(name, what, count):
    """tests/support/golden_checkpoint.hpp"""
    return numpy.arange(count, dtype=numpy.float32) + numpy.float32(0.5 * len(name) + 0.03125 * len(what))


def run(*arguments, code=0):
    result = subprocess.run([program, *arguments], capture_output=True, text=True)
    assert result.returncode == code, (arguments, result.returncode, result.stdout, result.stderr)
    return result.stdout


# One tree, through the links.
with h5py.File(golden + "/checkpoint.h5", "r") as tree:
    assert tree.attrs["step"] == 12 and tree.attrs["format_version"] == 2
    up = tree["/parameters/up"]
    assert up.shape == (4, 3) and up.attrs["dtype"] == b"float32"
    assert (up[()].reshape(-1) == golden_value("up", "weight", 12)).all()
    momentum = tree["/optimizer/up/momentum"]
    assert momentum.attrs["optimizer"] == b"muon"
    assert (momentum[()].reshape(-1) == golden_value("up", "momentum", 12)).all()
    assert tree["/parameters/nothing"].shape == (0, 8)
    bias = tree["/parameters/bias"]
    parts = [bias["segment.%d" % k] for k in range(len(bias))]
    assert (numpy.concatenate([part[()] for part in parts]) == golden_value("bias", "weight", 10)).all()
    assert [(p.attrs["begin"], p.attrs["end"]) for p in parts] == [(0, 6), (6, 10)]

# The reader of io/FORMAT.md, word for word.
with open(sys.path[0] + "/../../io/FORMAT.md") as text:
    code = text.read().split("```python\n")[1].split("```")[0]
space = {}
exec(code.replace('"step_00000012/"', repr(golden + "/")), space)
for (name, what), values in space["tensors"].items():
    assert (values.reshape(-1) == golden_value(name, what, values.size)).all(), (name, what)
assert len(space["tensors"]) == 7

# Our safetensors are theirs.
ours = folder + "/ours.safetensors"
run("export", golden, "--safetensors", ours)
tensors = load_file(ours)
assert sorted(tensors) == ["bias", "nothing", "scale", "up"]
assert tensors["up"].shape == (4, 3) and (tensors["up"].reshape(-1) == golden_value("up", "weight", 12)).all()
with safe_open(ours, "numpy") as file:
    assert file.metadata()["format"] == "pt"

# Theirs are ours: a GPT-2 as transformers names it, with a second copy of the tied head and a causal mask.
random = numpy.random.default_rng(1)
hidden, layers, vocabulary, sequence = 8, 2, 11, 6
shapes = {"wte.weight": (vocabulary, hidden), "wpe.weight": (sequence, hidden), "ln_f.weight": (hidden,), "ln_f.bias": (hidden,)}
for i in range(layers):
    block = {"ln_1.weight": (hidden,), "ln_1.bias": (hidden,), "ln_2.weight": (hidden,), "ln_2.bias": (hidden,),
             "attn.c_attn.weight": (hidden, 3 * hidden), "attn.c_attn.bias": (3 * hidden,),
             "attn.c_proj.weight": (hidden, hidden), "attn.c_proj.bias": (hidden,),
             "mlp.c_fc.weight": (hidden, 4 * hidden), "mlp.c_fc.bias": (4 * hidden,),
             "mlp.c_proj.weight": (4 * hidden, hidden), "mlp.c_proj.bias": (hidden,)}
    shapes.update({"h.%d.%s" % (i, name): shape for name, shape in block.items()})
theirs = {"transformer." + name: random.standard_normal(shape).astype(numpy.float32) for name, shape in shapes.items()}
extra = {"lm_head.weight": theirs["transformer.wte.weight"].copy(), "transformer.h.0.attn.bias": numpy.ones((1, 1, 6, 6), numpy.float32)}
save_file({**theirs, **extra}, folder + "/theirs.safetensors")
run("import", folder + "/imported", "--safetensors", folder + "/theirs.safetensors", "--ranks", "3")
step = folder + "/imported/step_00000000"
assert json.loads(run("verify", step, "--json"))["valid"]
with h5py.File(step + "/checkpoint.h5", "r") as tree:
    for i in range(layers):
        qkv = tree["/parameters/block.%d.attention.qkv" % i][()]
        c_attn = theirs["transformer.h.%d.attn.c_attn.weight" % i]
        assert (qkv == c_attn.T).all()
        # transformers splits the columns of x @ c_attn into query, key and value: the rows of ours.
        query, key, value = numpy.split(c_attn, 3, axis=1)
        assert (qkv[:hidden] == query.T).all() and (qkv[hidden:2 * hidden] == key.T).all()
        assert (qkv[2 * hidden:] == value.T).all()
        up = tree["/parameters/block.%d.mlp.up" % i][()]
        assert (up == theirs["transformer.h.%d.mlp.c_fc.weight" % i].T).all()
run("export", step, "--safetensors", folder + "/back.safetensors", "--names", "huggingface")
back = load_file(folder + "/back.safetensors")
assert sorted(back) == sorted(theirs)
for name, values in theirs.items():
    assert back[name].shape == values.shape and (back[name] == values).all(), name
print("interop: h5py %s, safetensors: all equal" % h5py.__version__)
