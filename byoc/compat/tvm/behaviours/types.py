"""Type relations, what types functions keep, constants, sizes as variables."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from byoc.compat.tvm.behaviours import behaviour

AREA = "types"


def _typed(tvm: ModuleType, relay: ModuleType, expr: object) -> Any:
    return relay.transform.InferType()(tvm.IRModule.from_expr(expr))["main"]


def _shape(ty: Any) -> list[object]:
    return [int(d) if isinstance(d, int) or type(d).__name__ == "IntImm" else "?" for d in ty.shape]


@behaviour(AREA, "element-wise relations, broadcasts and reductions take any dtype")
def _any_dtype(tvm: ModuleType, relay: ModuleType) -> None:
    x, b = relay.var("x", shape=(2,), dtype="int32"), relay.var("b", shape=(2,), dtype="bool")
    y = relay.var("y", shape=(2,))
    for call in (relay.log(x), relay.exp(x), relay.sqrt(x), relay.left_shift(y, y), relay.sum(b)):
        _typed(tvm, relay, call)


@behaviour(AREA, "bind keeps the result type that was inferred")
def _bound(tvm: ModuleType, relay: ModuleType) -> None:
    x = relay.var("x", shape=(4,))
    func = _typed(tvm, relay, relay.Function([x], x + x))
    found = relay.bind(func, {func.params[0]: relay.const(np.ones(4, "float32"))})
    assert found.ret_type == relay.TensorType((4,))


@behaviour(AREA, "const narrows float64 and int64, arrays too")
def _narrowed(tvm: ModuleType, relay: ModuleType) -> None:
    found = [relay.const(np.ones(2, dtype)).data.dtype for dtype in ("float64", "int64", "int8")]
    assert found == ["float32", "int32", "int8"]


@behaviour(AREA, "the joined axis of concatenate is ? where one input's is")
def _joined(tvm: ModuleType, relay: ModuleType) -> None:
    parts = [relay.var("a", shape=(1, 3)), relay.var("b", shape=(1, relay.Any()))]
    assert _shape(_typed(tvm, relay, relay.concatenate(parts, 0)).ret_type) == [2, "?"]


@behaviour(AREA, "nn.conv2d does not compare the dtype of its kernel")
def _kernel(tvm: ModuleType, relay: ModuleType) -> None:
    x, w = relay.var("x", shape=(1, 3, 8, 8), dtype="uint8"), relay.var("w", shape=(4, 3, 3, 3), dtype="int8")
    func = _typed(tvm, relay, relay.nn.conv2d(x, w, out_dtype="int32"))
    assert func.ret_type.dtype == "int32"


@behaviour(AREA, "nn.pad takes negative widths in every mode")
def _cut(tvm: ModuleType, relay: ModuleType) -> None:
    for mode in ("constant", "edge", "reflect"):
        call = relay.nn.pad(relay.var("x", shape=(4, 5)), ((-1, 0), (0, -2)), pad_mode=mode)
        assert _shape(_typed(tvm, relay, call).ret_type) == [3, 3]


@behaviour(AREA, "slice_like cuts the first axes of tensors of other ranks")
def _slice_like(tvm: ModuleType, relay: ModuleType) -> None:
    call = relay.slice_like(relay.var("x", shape=(4, 5, 6)), relay.var("y", shape=(2, 3)))
    assert _shape(_typed(tvm, relay, call).ret_type) == [2, 3, 6]


@behaviour(AREA, "arithmetic on sizes is equal by structure")
def _arithmetic(tvm: ModuleType, relay: ModuleType) -> None:
    te = importlib.import_module("tvm.te")

    n = te.var("n")
    found = _typed(tvm, relay, relay.nn.pad(relay.var("x", shape=(n,)), ((1, 1),))).ret_type
    assert found == relay.TensorType((n + 2,)) and found != relay.TensorType((n + 3,))
