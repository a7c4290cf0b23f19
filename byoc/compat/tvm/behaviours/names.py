"""Modules and names that are looked up before anything runs."""

from __future__ import annotations

import importlib
from types import ModuleType

from byoc.compat.tvm.behaviours import behaviour

AREA = "names"


@behaviour(AREA, "the modules that integrations import first can be imported")
def _modules(tvm: ModuleType, relay: ModuleType) -> None:
    for name in (
        "tvm.ir.diagnostics",
        "tvm.target.codegen",
        "tvm.relay.transform.infer_layout_utils",
        "tvm.relay.base",
        "tvm.testing.aot",
        "tvm.micro.testing.aot_test_utils",
        "tvm.relay.backend.te_compiler",
    ):
        importlib.import_module(name)


@behaviour(AREA, "LLVM's major version is an int")
def _llvm(tvm: ModuleType, relay: ModuleType) -> None:
    assert isinstance(importlib.import_module("tvm.target.codegen").llvm_version_major(), int)


@behaviour(AREA, "relay.backend has te_compiler without an import of it")
def _te_compiler(tvm: ModuleType, relay: ModuleType) -> None:
    relay.backend.te_compiler.get().clear()


@behaviour(AREA, "a renderer of diagnostics is shown what a failing pass found, once")
def _renderer(tvm: ModuleType, relay: ModuleType) -> None:
    seen: list[list[str]] = []
    tvm.ir.diagnostics.override_renderer(lambda ctx: seen.append([d.message for d in ctx.diagnostics]))
    try:
        x = relay.var("x", shape=(2, 3))
        relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], x, relay.TensorType((1, 3)))))
    except tvm.error.DiagnosticError as error:
        assert type(error) is tvm.error.DiagnosticError and isinstance(error, RuntimeError)
    finally:
        tvm.ir.diagnostics.override_renderer(None)
    assert len(seen) == 1 and "  dimension 0 conflicts: 2 does not match 1." in seen[0][0]


@behaviour(AREA, "names of the contrib package are those of its modules")
def _contrib(tvm: ModuleType, relay: ModuleType) -> None:
    contrib = importlib.import_module("tvm.relay.op.contrib")
    assert contrib.get_pattern_table("dnnl") and contrib.get_pattern_table("nobody") is None


@behaviour(AREA, "nn.dilate, nn.Constant and SpanCheck are there")
def _small_names(tvm: ModuleType, relay: ModuleType) -> None:
    call = relay.nn.dilate(relay.var("x", shape=(2, 3)), (1, 2))
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(call))
    assert [int(n) for n in typed["main"].ret_type.shape] == [2, 5]
    assert relay.nn.Constant is relay.Constant and relay.SpanCheck().info.name == "SpanCheck"


@behaviour(AREA, "an option of a PassContext that is not of its type is an AttributeError")
def _option(tvm: ModuleType, relay: ModuleType) -> None:
    try:
        tvm.transform.PassContext(config={"relay.backend.use_auto_scheduler": "yes"})
    except AttributeError:
        return
    raise AssertionError("a text was taken for a bool")
