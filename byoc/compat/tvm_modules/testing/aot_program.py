"""A program in C of a module: written by ``byoc.export_c``, built by make, run on files."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.compat.tvm_modules.ccompiler import KIND
from byoc.driver.compiler.export_c import export_c
from byoc.errors import CompileError
from byoc.ir.module import IRModule
from byoc.ir.types import FuncType, TensorType, TupleType, Type
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Call, Function
from byoc.relay.transform.cut.compiler_functions import (
    InlineCompilerFunctionsBoundTo,
    OutlineCompilerFunctionsWithExistingGlobalSymbols,
)
from byoc.relay.traverse import post_order
from byoc.runtime.core.ndarray import numpy_dtype

_SECONDS = 600.0


def run_program(mod: IRModule, folder: Path, inputs: Sequence[np.ndarray]) -> tuple[list[np.ndarray], str]:
    """Write *mod* as portable C into *folder*, build its program, and run it on *inputs*: the outputs, what it printed.

    Raises CompileError for operators without C, and for C that does not compile.
    """
    export_c(mod, folder, portable=True)
    command = " ".join(find_compiler().command)
    _called(["make", "-s", "-C", str(folder), f"CC={command}"])
    files = []
    for index, array in enumerate(inputs):
        files.append(folder / f"input{index}.raw")
        np.asarray(array, order="C").tofile(files[-1])
    results = folder / "results"
    results.mkdir(exist_ok=True)
    printed = _called([str((folder / "model").absolute()), "-o", str(results), *map(str, files)])
    names = [line.split(":")[0] for line in printed.splitlines()]
    raw = [(results / f"{name}.bin").read_bytes() for name in names]
    ty = mod["main"].checked_type
    assert isinstance(ty, FuncType)
    pairs = zip(raw, _tensors(ty.ret_type), strict=True)
    return [np.frombuffer(data, numpy_dtype(ty.dtype)).reshape(ty.concrete_shape) for data, ty in pairs], printed


def _called(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise CompileError(f"{' '.join(command)} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def _tensors(ty: Type) -> list[TensorType]:
    if isinstance(ty, TupleType):
        return [tensor for field in ty.fields for tensor in _tensors(field)]
    assert isinstance(ty, TensorType)
    return [ty]


def with_c_inlined(mod: IRModule) -> IRModule:
    """*mod*, with the regions of ``ccompiler`` as part of main: the same generator makes the C of both."""
    outlined = OutlineCompilerFunctionsWithExistingGlobalSymbols(KIND)(infer_module(mod))
    names = [
        var
        for var, func in outlined.functions.items()
        if isinstance(func, Function) and func.attrs.get("Compiler") == KIND
    ]
    return InlineCompilerFunctionsBoundTo(names)(outlined)


def has_regions(mod: IRModule) -> bool:
    """Whether a function of *mod*, or one that is called in it, belongs to a code generator."""
    functions = [func for func in mod.functions.values() if isinstance(func, Function)]
    called = [
        node.op
        for func in functions
        for node in post_order(func)
        if isinstance(node, Call) and isinstance(node.op, Function)
    ]
    return any("Compiler" in func.attrs for func in (*functions, *called))
