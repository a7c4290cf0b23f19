"""What the passes do, and leave."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from byoc.compat.tvm.behaviours import behaviour

AREA = "passes"


def _after(tvm: ModuleType, relay: ModuleType, expr: object, *passes: object) -> Any:
    mod = tvm.transform.Sequential([relay.transform.InferType(), *passes])
    with tvm.transform.PassContext(opt_level=3):
        return mod(tvm.IRModule.from_expr(expr))["main"].body


@behaviour(AREA, "SimplifyExpr keeps the addition of a tensor of zeros, and drops that of a scalar")
def _neutral(tvm: ModuleType, relay: ModuleType) -> None:
    x = relay.var("x", shape=(2, 3))
    kept = _after(tvm, relay, x + relay.const(np.zeros((3,), "float32")), relay.transform.SimplifyExpr())
    gone = _after(tvm, relay, x + relay.const(0.0), relay.transform.SimplifyExpr())
    assert isinstance(kept, relay.Call) and isinstance(gone, relay.Var)


@behaviour(AREA, "SimplifyExpr folds two constants beside each other")
def _folded(tvm: ModuleType, relay: ModuleType) -> None:
    x, c = relay.var("x", shape=(2,)), relay.const(np.ones(2, "float32"))
    found = _after(tvm, relay, (x + c) + c, relay.transform.SimplifyExpr())
    assert isinstance(found.args[1], relay.Constant)


@behaviour(AREA, "DeadCodeElimination lets die what is not read, and leaves projections of tuples")
def _dead(tvm: ModuleType, relay: ModuleType) -> None:
    a, b, d = relay.var("a"), relay.var("b", shape=(2,)), relay.var("d", shape=(2,))
    body = relay.Function([b, d], relay.Let(a, b, d))
    assert isinstance(_after(tvm, relay, body, relay.transform.DeadCodeElimination()), relay.Var)
    item = relay.TupleGetItem(relay.Tuple([relay.const(1), relay.const(2)]), 0)
    assert isinstance(_after(tvm, relay, item, relay.transform.DeadCodeElimination()), relay.TupleGetItem)


@behaviour(AREA, "FoldConstant requires nothing")
def _requires(tvm: ModuleType, relay: ModuleType) -> None:
    assert list(relay.transform.FoldConstant().info.required) == []


@behaviour(AREA, "AnnotateTarget types the module that it is given")
def _annotate(tvm: ModuleType, relay: ModuleType) -> None:
    x = relay.var("x", shape=(2,))
    relay.transform.AnnotateTarget("dnnl")(tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))))


@behaviour(AREA, "DefuseOps inlines every call of a function literal")
def _defused(tvm: ModuleType, relay: ModuleType) -> None:
    a, x = relay.var("a", shape=(2,)), relay.var("x", shape=(2,))
    body = relay.Function([x], relay.Call(relay.Function([a], relay.exp(a)), [x]))
    found = _after(tvm, relay, body, relay.transform.DefuseOps())
    assert found.op == relay.op.get("exp")


@behaviour(AREA, "memory.alloc_storage has the type Storage[]")
def _storage(tvm: ModuleType, relay: ModuleType) -> None:
    for name in ("memory.alloc_storage", "memory.alloc_tensor", "memory.kill"):
        assert relay.op.get(name).name == name


@behaviour(AREA, "on_device that constrains nothing has the unconstrained device")
def _device(tvm: ModuleType, relay: ModuleType) -> None:
    call = relay.annotation.on_device(
        relay.var("x", shape=(2,)), tvm.cpu(), constrain_result=False, constrain_body=False
    )
    assert call.attrs.virtual_device.device_type_int == -1


@behaviour(AREA, "Defunctionalization leaves no function that takes or gives another")
def _first_order(tvm: ModuleType, relay: ModuleType) -> None:
    mod = tvm.relay.fromtext(
        '#[version = "0.0.5"]\ndef @call[A, B](%f: fn(A) -> B, %x: A) -> B { %f(%x) }\n'
        "def @main(%x: int32) -> int32 { @call(fn[A](%a: A) -> A { %a }, %x) }"
    )
    mod = relay.transform.InferType()(mod)
    mod["main"] = relay.transform.Defunctionalization(mod["main"], mod)
    assert not isinstance(relay.transform.InferType()(mod)["main"].body.args[0].checked_type, relay.FuncType)


@behaviour(AREA, "ManifestLifetimes kills a variable behind its last use")
def _killed(tvm: ModuleType, relay: ModuleType) -> None:
    x, y, z = relay.var("x", shape=(2,)), relay.var("y"), relay.var("z")
    body = relay.Let(y, relay.exp(x), relay.Let(z, y + y, z))
    mod = relay.transform.ManifestLifetimes()(tvm.IRModule.from_expr(relay.Function([x], body)))
    assert relay.analysis.list_op_freqs(mod)["memory.kill"] == 2


@behaviour(AREA, "recast casts the inputs of convolutions, and their results back")
def _recast(tvm: ModuleType, relay: ModuleType) -> None:
    x, w = relay.var("x", shape=(1, 4, 8, 8)), relay.var("w", shape=(4, 4, 3, 3))
    func = relay.transform.recast(relay.Function([x, w], relay.nn.conv2d(x, w)), "int8", "int32")
    assert func.body.attrs.dtype == "float32" and func.body.args[0].attrs.out_dtype == "int32"
