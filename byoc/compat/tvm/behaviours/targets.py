"""Targets, arrays that are copied, and code that is built ahead of time."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np

from byoc.compat.tvm.behaviours import behaviour

AREA = "targets"


@behaviour(AREA, "a target has the defaults of its kind's options")
def _defaults(tvm: ModuleType, relay: ModuleType) -> None:
    attrs = tvm.target.Target("tensorrt").attrs
    assert attrs["use_fp16"] is False and attrs["max_workspace_size"] == 1 << 30
    assert tvm.target.Target("cutlass").attrs["sm"] == 80 and tvm.target.Target("ccompiler").attrs["header"] == ""


@behaviour(AREA, "options given as text become the type that is declared")
def _typed(tvm: ModuleType, relay: ModuleType) -> None:
    assert tvm.target.Target("tensorrt -use_fp16=True").attrs["use_fp16"] is True


@behaviour(AREA, "a target says how many arguments a kernel may have")
def _arguments(tvm: ModuleType, relay: ModuleType) -> None:
    assert [tvm.target.Target(k).max_function_args for k in ("opencl", "metal", "llvm")] == [128, 31, 0]


@behaviour(AREA, "an array takes the bytes of another, and numbers of numpy converted")
def _copies(tvm: ModuleType, relay: ModuleType) -> None:
    ones = np.ones(2, "int32")
    assert (tvm.nd.empty((2,)).copyfrom(tvm.nd.array(ones)).numpy() == ones.view("float32")).all()
    assert (tvm.nd.empty((2,)).copyfrom(ones).numpy() == 1).all()


@behaviour(AREA, "C of a region that does not compile is a RuntimeError, the header of its target before it")
def _header(tvm: ModuleType, relay: ModuleType) -> None:
    mod = _region(tvm, relay)
    target = tvm.target.Target({"kind": "ccompiler", "header": "Bogus"}, host="llvm")
    try:
        relay.build(mod, [tvm.target.Target("llvm"), target])
    except RuntimeError:
        return
    raise AssertionError("it compiled")


@behaviour(AREA, "a module is built ahead of time, run and compared")
def _ahead_of_time(tvm: ModuleType, relay: ModuleType) -> None:
    aot = importlib.import_module("tvm.testing.aot")
    x = np.ones((2, 2), "float32")
    assert aot.compile_and_run(aot.AOTTestModel(_region(tvm, relay), {"x": x}, [x + x]), use_unpacked_api=True)


def _region(tvm: ModuleType, relay: ModuleType) -> object:
    """A module whose addition is a region of ``ccompiler``."""
    a = relay.var("a", shape=(2, 2))
    inner = relay.Function([a], relay.add(a, a))
    for key, value in (("Primitive", 1), ("Compiler", "ccompiler"), ("global_symbol", "ccompiler_0")):
        inner = inner.with_attr(key, value)
    x = relay.var("x", shape=(2, 2))
    return tvm.IRModule.from_expr(relay.Function([x], relay.Call(inner, [x])))
