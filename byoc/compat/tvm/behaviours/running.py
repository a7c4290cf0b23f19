"""Executors, their inputs, kernels in other precisions."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from byoc.compat.tvm.behaviours import behaviour

AREA = "running"


def _evaluator(tvm: ModuleType, relay: ModuleType, expr: object, kind: str = "graph") -> Any:
    return relay.create_executor(kind, tvm.IRModule.from_expr(expr), tvm.cpu(), "llvm").evaluate()


@behaviour(AREA, "the graph executor converts inputs to the parameter's dtype")
def _converts(tvm: ModuleType, relay: ModuleType) -> None:
    x = relay.var("x", shape=(2,))
    found = _evaluator(tvm, relay, relay.Function([x], x + x))(np.ones(2, "int32"))
    assert found.numpy().tolist() == [2.0, 2.0] and found.dtype == "float32"


@behaviour(AREA, "keywords that name no parameter are passed over")
def _keywords(tvm: ModuleType, relay: ModuleType) -> None:
    x = relay.var("x", shape=(2,))
    for kind in ("graph", "vm", "debug"):
        call = _evaluator(tvm, relay, relay.Function([x], x + x), kind)
        call(x=np.ones(2, "float32"), extra=np.ones(3, "float32"))


@behaviour(AREA, "a graph runs on inputs that were never set")
def _unset(tvm: ModuleType, relay: ModuleType) -> None:
    graph_executor = importlib.import_module("tvm.contrib.graph_executor")

    x = relay.var("x", shape=(2,))
    library = relay.build(tvm.IRModule.from_expr(relay.Function([x], x + x)), "llvm")
    graph_executor.GraphModule(library["default"](tvm.cpu())).run()


@behaviour(AREA, "the virtual machine does not check the shapes of inputs")
def _unchecked(tvm: ModuleType, relay: ModuleType) -> None:
    x = relay.var("x", shape=(2,))
    found = _evaluator(tvm, relay, relay.Function([x], relay.shape_of(x)), "vm")(np.ones(3, "float32"))
    assert found.numpy().size == 1


@behaviour(AREA, "mean of float16 sums in float32")
def _mean(tvm: ModuleType, relay: ModuleType) -> None:
    x = relay.var("x", shape=(4096,), dtype="float16")
    found = _evaluator(tvm, relay, relay.Function([x], relay.mean(x)))(np.full(4096, 30, "float16"))
    assert float(found.numpy()) == 30.0


@behaviour(AREA, "sizes that depend on data are found by the virtual machine and the debug executor")
def _dynamic(tvm: ModuleType, relay: ModuleType) -> None:
    x = relay.var("x", shape=(relay.Any(),), dtype="bool")
    for kind in ("vm", "debug"):
        found = _evaluator(tvm, relay, relay.Function([x], relay.argwhere(x)), kind)
        assert found(np.array([True, False, True])).numpy().ravel().tolist() == [0, 2]


@behaviour(AREA, "bytecode of reshapes in a row has one reshape_tensor")
def _reshapes(tvm: ModuleType, relay: ModuleType) -> None:
    x = relay.var("x", shape=(4, 4))
    body = relay.reshape(relay.reshape(relay.reshape(x, (2, 8)), (16,)), (8, 2))
    exe = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], body)), "llvm")
    assert exe.bytecode.count("reshape_tensor") == 1


@behaviour(AREA, "bytecode allocates outputs of known shapes by alloc_tensor, others by alloc_tensor_reg")
def _allocations(tvm: ModuleType, relay: ModuleType) -> None:
    for size, known in ((3, True), (relay.Any(), False)):
        x = relay.var("x", shape=(size, 2))
        text = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))), "llvm").bytecode
        assert "alloc_tensor" in text
        assert ("alloc_tensor_reg" not in text) is known


@behaviour(AREA, "constants may be moved out of an executable and loaded later")
def _late_bound(tvm: ModuleType, relay: ModuleType) -> None:
    x = relay.var("x", shape=(1000,))
    body = x + relay.const(np.arange(1000, dtype="float32"))
    exe = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], body)), "llvm")
    assert len(exe.get_late_bound_consts(byte_limit=256)) == 1
