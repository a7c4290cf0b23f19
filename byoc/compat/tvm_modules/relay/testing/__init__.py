"""What tests of passes and networks are written with. Source: ``relay.testing``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.compat.tvm_modules.relay.testing.temp_op_attr import TempOpAttr
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.transform import Pass, PassContext, Sequential
from byoc.ir.types import TensorType
from byoc.relay.expr import Function
from byoc.relay.transform import InferType
from byoc.runtime.ndarray import NDArray, numpy_dtype

Passes = Pass | list[Pass]


def run_opt_pass(expr: RelayExpr, opt_pass: Passes, import_prelude: bool = False) -> RelayExpr:
    """*expr* after the passes at level 3: a function for a function, else the body. Source: ``relay.testing``."""
    mod = IRModule.from_expr(expr)
    mod = InferType()(mod)
    with PassContext(opt_level=3):
        mod = _as_pass(opt_pass)(mod)
    main = mod["main"]
    return main if isinstance(expr, Function) else main.body  # type: ignore[attr-defined]


def _as_pass(opt_pass: Passes) -> Pass:
    return opt_pass if isinstance(opt_pass, Pass) else Sequential(opt_pass)


def run_infer_type(expr: RelayExpr) -> RelayExpr:
    """*expr* with its types. Source: ``relay.testing.run_infer_type``."""
    return run_opt_pass(expr, InferType())


Initializer = Callable[[str, np.ndarray], None]


def xavier(name: str, array: np.ndarray) -> None:
    """Fill a parameter: weights by Xavier's rule, biases and shifts 0, scales and variances 1."""
    if name.endswith(("gamma", "var")):
        array[:] = 1
    elif name.endswith(("bias", "beta", "mean")) or array.ndim < 2:
        array[:] = 0
    else:
        receptive = int(np.prod(array.shape[2:]))
        scale = np.sqrt(6 / ((array.shape[0] + array.shape[1]) * receptive))
        array[:] = np.random.uniform(-scale, scale, array.shape)


def create_workload(
    net: Function, initializer: Initializer | None = None, seed: int = 0
) -> tuple[IRModule, dict[str, NDArray]]:
    """A module of *net* and parameters for all its inputs but ``data`` and ``label``. Source: ``relay.testing``."""
    mod = InferType()(IRModule.from_expr(net))
    fill = initializer or xavier
    np.random.seed(seed)
    params: dict[str, NDArray] = {}
    for param in mod["main"].params:  # type: ignore[attr-defined]
        ty = param.checked_type
        if param.name_hint in ("data", "label") or not isinstance(ty, TensorType):
            continue
        array = np.zeros(ty.concrete_shape, numpy_dtype(ty.dtype))
        fill(param.name_hint, array)
        params[param.name_hint] = NDArray(array)
    return mod, params


def rand(dtype: str, *shape: int) -> NDArray:
    """An array of numbers in [0, 1). Source: ``relay.testing.rand``."""
    return NDArray(np.random.rand(*shape).astype(dtype))


__all__ = ["TempOpAttr", "create_workload", "rand", "run_infer_type", "run_opt_pass", "xavier"]
