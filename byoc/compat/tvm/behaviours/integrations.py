"""Integrations of vendors: oneDNN, and what answers only when it is asked to."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np

from byoc.compat.tvm.behaviours import behaviour

AREA = "integrations"


@behaviour(AREA, "the pattern table of oneDNN is there without importing anything")
def _table(tvm: ModuleType, relay: ModuleType) -> None:
    rows = relay.op.contrib.get_pattern_table("dnnl")
    names = {row[0] for row in rows}
    assert any("sum" in name for name in names) and any("mish" in name for name in names)
    assert {"dnnl.qnn.conv2d", "dnnl.qnn.dense"} <= names


@behaviour(AREA, "regions of oneDNN run on the graph executor and the virtual machine")
def _runs(tvm: ModuleType, relay: ModuleType) -> None:
    x, rng = relay.var("x", shape=(1, 4, 8, 8)), np.random.default_rng(0)
    weight = relay.const(rng.standard_normal((4, 4, 3, 3)).astype("float32"))
    body = relay.nn.relu(relay.nn.conv2d(x, weight, padding=(1, 1)))
    mod = tvm.IRModule.from_expr(relay.Function([x], body))
    data = rng.standard_normal((1, 4, 8, 8)).astype("float32")
    wanted = relay.create_executor("debug", mod).evaluate()(data).numpy()
    make = relay.transform
    table = relay.op.contrib.get_pattern_table("dnnl")
    steps = [make.InferType(), make.MergeComposite(table), make.AnnotateTarget("dnnl"), make.MergeCompilerRegions()]
    cut = tvm.transform.Sequential([*steps, make.PartitionGraph()])(mod)
    assert any("Compiler" in f.attrs for f in cut.functions.values() if f.attrs)
    for kind in ("graph", "vm"):
        found = relay.create_executor(kind, cut, tvm.cpu(), "llvm").evaluate()(data).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@behaviour(AREA, "kernels of convolutions may have the groups as an axis")
def _groups(tvm: ModuleType, relay: ModuleType) -> None:
    x, w = relay.var("x", shape=(1, 4, 8, 8)), relay.var("w", shape=(2, 3, 2, 3, 3))
    call = relay.nn.conv2d(x, w, groups=2, channels=6, kernel_size=(3, 3), kernel_layout="GOIHW")
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(call))
    assert [int(n) for n in typed["main"].ret_type.shape] == [1, 6, 6, 6]


@behaviour(AREA, "a TensorRT answers to whoever asked for its emulation, and to nobody else")
def _unasked(tvm: ModuleType, relay: ModuleType) -> None:
    assert tvm.get_global_func("relay.ext.tensorrt.is_runtime_enabled", True) is None
    assert callable(importlib.import_module("byoc.compat.tvm").emulate)
