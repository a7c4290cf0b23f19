"""One call as a function of its own, of which a library is asked whether it can run it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from byoc.contract import Constraint, judge
from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Constant, Function, Tuple, Var
from byoc.runtime.core.ndarray import NDArray

Model = TypeVar("Model")


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


def asked_of_library(
    text: str,
    taken: Sequence[Constraint],
    missing: Callable[[], str | None],
    written: Callable[[Function], Model],
    refusal: Callable[[Model], str | None],
) -> Constraint:
    """The last constraint of a library's backend: that the library itself takes the call, alone; *text* says so.

    Args:
        taken: the constraints before it; what they refuse cannot be written.
        missing: why the library is not here. Then all is taken, so that one may plan for another machine.
        written: a call alone as what the library reads: bytes, or what ``repr`` tells apart. Weights are zeros.
        refusal: what the library says against that, asked once; None where it takes it.
    """
    known: dict[bytes, str | None] = {}

    def check(call: Call) -> str | None:
        if missing() is not None or not judge(call, taken):
            return None
        model = written(call_alone(call))
        key = hashlib.sha256(model if isinstance(model, bytes) else repr(model).encode()).digest()
        if key not in known:
            known[key] = refusal(model)
        return known[key]

    return Constraint("kernel", text, check, machine=True)
