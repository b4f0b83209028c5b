"""Reads Spack's recipe without Spack: spack_recipe.py <source tree>

What the recipe passes to CMake must be options that there are, every option of ours must be the recipe's or one that is
not for users of Spack, and versions that both name must be the same.
"""

import ast
import os
import re
import sys

VARIANTS = {"shared", "openmp", "nccl", "onednn", "tests", "cxxstd"}  # cuda and rocm come from the base classes
BASES = ["CMakePackage", "CudaPackage", "ROCmPackage"]
NOT_FOR_SPACK = {"MATRIXFSDP_BUILD_FUZZERS", "MATRIXFSDP_WARNINGS_AS_ERRORS"}


def calls(tree, name):
    """Calls of a function or method `name`, with their first argument that is a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == name and node.args and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value, node


def main():
    root = sys.argv[1]
    folder = os.path.join(root, "spack", "spack_repo", "matrixfsdp")
    with open(os.path.join(folder, "packages", "matrixfsdp", "package.py"), encoding="utf-8") as file:
        recipe = ast.parse(file.read())
    with open(os.path.join(root, "CMakeLists.txt"), encoding="utf-8") as file:
        cmake = file.read()
    with open(os.path.join(folder, "repo.yaml"), encoding="utf-8") as file:
        repository = file.read()
    errors = []

    def expect(true, message):
        if not true:
            errors.append(message)

    expect(re.search(r"^  namespace: matrixfsdp$", repository, re.M), "repo.yaml: expected namespace matrixfsdp")
    classes = [node for node in recipe.body if isinstance(node, ast.ClassDef)]
    expect([c.name for c in classes] == ["Matrixfsdp"], "expected one class, Matrixfsdp")
    expect([base.id for base in classes[0].bases] == BASES, f"expected the bases {BASES}")

    variants = {name for name, _ in calls(recipe, "variant")}
    expect(variants == VARIANTS, f"variants {sorted(variants)}: expected {sorted(VARIANTS)}")
    for name, call in calls(recipe, "define_from_variant"):
        of = call.args[1].value
        expect(of in variants | {"cuda", "rocm"}, f"{name} is from variant {of}, which there is not")
    for name, call in calls(recipe, "conflicts"):
        expect(any(word.arg == "msg" for word in call.keywords), f"conflict '{name}' says no reason")

    options = set(re.findall(r"^option\((\w+) ", cmake, re.M))
    defined = {name for function in ("define", "define_from_variant") for name, _ in calls(recipe, function)}
    ours = {name for name in defined if name.startswith("MATRIXFSDP_")}
    for name in sorted(ours - options):
        errors.append(f"the recipe sets {name}, which is no option of CMakeLists.txt")
    for name in sorted({o for o in options if o.startswith("MATRIXFSDP_")} - ours - NOT_FOR_SPACK):
        errors.append(f"option {name} of CMakeLists.txt is not in the recipe")
    expect("BUILD_SHARED_LIBS" in defined & options, "expected BUILD_SHARED_LIBS in both")

    needs = [name for name, _ in calls(recipe, "depends_on")]
    minimum = re.search(r"cmake_minimum_required\(VERSION ([0-9.]+)\)", cmake).group(1)
    expect(f"cmake@{minimum}:" in needs, f"expected cmake@{minimum}:, as in CMakeLists.txt")
    for package in ("mpi", "kokkos", "blas", "hdf5", "fmt", "nlohmann-json", "xxhash", "cli11"):
        expect(any(re.match(rf"{package}($|[@+~ ])", need) for need in needs), f"expected a dependency on {package}")

    for error in errors:
        print(f"spack recipe: {error}")
    print(f"spack recipe: {len(variants)} variants, {len(ours)} options, {len(needs)} dependencies")
    return 1 if errors else 0


sys.exit(main())
