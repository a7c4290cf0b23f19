"""One call as a function of its own, of which a library is asked whether it can run it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Constant, Function, Tuple, Var
from byoc.runtime.core.ndarray import NDArray


def zeros_like(constant: Constant) -> Constant:
    """Zeros in the place of *constant*: equal for all weights of a shape."""
    return Constant(NDArray(np.zeros_like(constant.data.numpy())))


def call_alone(call: Call, stands_for: Callable[[Constant], RelayExpr | None] = zeros_like) -> Function:
    """A typed function, called ``alone``, of *call*: its arguments are parameters, but for constants.

    In the place of a constant is what it *stands_for*; None makes it a parameter too.
    """
    params: list[Var] = []

    def given(arg: RelayExpr) -> RelayExpr:
        if isinstance(arg, Tuple):
            return Tuple([given(field) for field in arg.fields])
        kept = stands_for(arg) if isinstance(arg, Constant) else None
        if kept is not None:
            return kept
        types = [Var(f"x{len(params) + k}", t) for k, t in enumerate(tensor_types(arg.checked_type))]
        params.extend(types)
        return types[0] if isinstance(arg.checked_type, TensorType) else Tuple(types)

    body = Call(call.op, [given(a) for a in call.args], call.attrs)
    return infer_function(Function(params, body, attrs={"global_symbol": "alone"}))
