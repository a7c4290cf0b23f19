"""Cases in other layouts: an operator alone, in each layout that the backend's places name, and in NHWC.

ConvertLayout brings the operator's sample there; what it is given is what the reference computes of the sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from byoc.contract.backend import Backend
from byoc.contract.support_table import registered_operators
from byoc.errors import ByocError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import TensorType
from byoc.relay import transform
from byoc.relay.expr import Call, Function, Var
from byoc.relay.traverse import post_order
from byoc.testing.cases.operators import BackendAnswers, attributes, call_function, is_computed, sample_inputs
from byoc.testing.cases.retyped import OTHERS, is_known, retyped
from byoc.testing.core.case import Case, function_of
from byoc.testing.core.reference import node_values

LAYOUT = "layouts"
ATTRIBUTE = "data_layout"
USUAL, OTHER = "NCHW", "NHWC"


def claimed_layouts(backend: Backend) -> Sequence[str]:
    """The layouts of the backend's places, and NHWC, which a verdict may take whatever the places say."""
    named = [place.split("/")[2] for place in backend.places() if place.count("/") >= 2]
    return list(dict.fromkeys([*(y for y in named if y.startswith("N") and y != USUAL), OTHER]))


def layout_cases(asked: BackendAnswers, seed: int) -> Iterator[Case]:
    """The first sample that can be converted of each operator with a layout, in each layout."""
    layouts = claimed_layouts(asked.backend)
    for op in registered_operators():
        if op.attrs_type is not None and ATTRIBUTE in op.attrs_type.__dataclass_fields__:
            for layout in layouts:
                found = [_converted(op, layout, k, seed) for k in range(len(op.samples))]
                made = [c for c in found if c is not None]
                others = (_in_dtype(c, dtype) for dtype in OTHERS if is_known(dtype) for c in made)
                for tried in (made, (c for c in others if c is not None)):
                    case = next((c for c in tried if asked.takes(c.function, c.name)), None)
                    if case is not None:
                        yield case
                        break


def _in_dtype(case: Case, dtype: str) -> Case | None:
    """*case* with what is float32 in it of *dtype*."""
    try:
        body, given = retyped(case.function.body, dict(zip(case.function.params, case.feeds[0], strict=True)), dtype)
        function = function_of(list(given), body)
    except (ByocError, TypeError, ValueError):
        return None
    arrays = tuple(given.values())
    if not is_computed(function, arrays):
        return None
    return replace(case, name=f"{case.name}, {dtype}", function=function, feeds=(arrays,))


def _converted(op: Op, layout: str, number: int, seed: int) -> Case | None:
    sample = op.samples[number]
    attrs = attributes(op, sample)
    if getattr(attrs, ATTRIBUTE) != USUAL:
        return None
    try:
        function, arrays = call_function(op, attrs, sample_inputs(sample, seed))
        wanted = [layout] if len(op.input_names) == 1 else [layout, "default"]
        main = transform.ConvertLayout({op.name: wanted})(IRModule.from_expr(function))["main"]
        assert isinstance(main, Function)
        typed = function_of(main.params, main.body)
        call = next(n for n in post_order(typed.body) if isinstance(n, Call) and n.op is op)
        if not isinstance(call.attrs, Attrs) or getattr(call.attrs, ATTRIBUTE) != layout:
            return None
        values = node_values(typed, arrays, False)
        alone, given = _alone(call, [values[a] for a in call.args])
    except (ByocError, TypeError, ValueError, IndexError):
        return None
    if not is_computed(alone, given):
        return None
    return Case(f"{op.name}[{number}], {layout}", op.name, LAYOUT, alone, (given,))


def _alone(call: Call, values: Sequence[object]) -> tuple[Function, tuple[np.ndarray, ...]]:
    params: list[Var] = []
    arrays: list[np.ndarray] = []
    for k, (arg, value) in enumerate(zip(call.args, values, strict=True)):
        if not isinstance(arg.checked_type, TensorType) or not isinstance(value, np.ndarray):
            raise ValueError("an operator with a layout takes tensors")
        params.append(Var(f"x{k}_0", arg.checked_type))
        arrays.append(np.array(value, order="C"))
    args: list[RelayExpr] = [*params]
    return function_of(params, Call(call.op, args, call.attrs)), tuple(arrays)
