"""Cases in other layouts: an operator alone, in each layout that the backend's places name, and in NHWC.

ConvertLayout brings the operator's sample there; what it is given is what the reference computes of the sample. Weights
are tried in the orders that chips have, until one is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from byoc.contract.backend import Backend
from byoc.contract.support_table import registered_operators
from byoc.errors import ByocError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op, Sample
from byoc.ir.types import TensorType
from byoc.relay import transform
from byoc.relay.expr import Call, Function, Var
from byoc.relay.traverse import post_order
from byoc.testing.cases.operators import BackendAnswers, attributes, call_function, is_computed, sample_inputs
from byoc.testing.cases.retyped import OTHERS, is_known, retyped
from byoc.testing.core.case import Case, function_of
from byoc.testing.core.reference import node_values

LAYOUT = "layouts"
ATTRIBUTES = ("data_layout", "layout")  # of convolutions, and of poolings and resizes
KERNELS = ("default", "OHWI", "OIHW")  # orders of weights
USUAL, OTHER = "NCHW", "NHWC"


def claimed_layouts(backend: Backend) -> Sequence[str]:
    """The layouts of the backend's places, and NHWC, which a verdict may take whatever the places say."""
    named = [place.split("/")[2] for place in backend.places() if place.count("/") >= 2]
    return list(dict.fromkeys([*(y for y in named if y.startswith("N") and y != USUAL), OTHER]))


def layout_cases(asked: BackendAnswers, seed: int, tried: Collection[str] = ()) -> Iterator[Case]:
    """The first sample that can be converted of each operator with a layout, in each layout.

    Of operators that are not among those *tried*, which the backend takes in no layout of its samples, all samples.
    """
    layouts = claimed_layouts(asked.backend)
    for op in registered_operators():
        if _attribute_of(op) is not None and op.name not in asked.by_name:
            for layout in layouts:
                for kernel in KERNELS if len(op.input_names) > 1 else KERNELS[:1]:
                    found = _taken(asked, op, (layout, kernel), seed)
                    cases = list(itertools.islice(found, 1) if op.name in tried else found)
                    yield from cases
                    if cases:
                        break


def _taken(asked: BackendAnswers, op: Op, wanted: tuple[str, str], seed: int) -> Iterator[Case]:
    """The samples of *op* in these layouts that the backend takes, in the first element type in which it takes any."""
    made = [c for k in range(len(op.samples)) if (c := _converted(op, wanted, k, seed)) is not None]
    others = ([c for m in made if (c := _in_dtype(m, dtype)) is not None] for dtype in OTHERS if is_known(dtype))
    for cases in itertools.chain([made], others):
        taken = [c for c in cases if asked.takes(c.function, c.name)]
        if taken:
            yield from taken
            return


def samples_in_layouts(backend: Backend, op: Op, seed: int) -> list[Sample]:
    """The samples of *op* in each layout that *backend* claims, with weights in each order."""
    found = []
    for layout in claimed_layouts(backend) if _attribute_of(op) is not None else ():
        for kernel in KERNELS if len(op.input_names) > 1 else KERNELS[:1]:
            for number, sample in enumerate(op.samples):
                case = _converted(op, (layout, kernel), number, seed)
                attrs = None if case is None else getattr(case.function.body, "attrs", None)
                if case is not None and isinstance(attrs, Attrs):
                    shapes: list[object] = [array.shape for array in case.feeds[0]]
                    found.append(replace(sample, inputs=shapes, attrs=dict(attrs.items())))
    return found


def _attribute_of(op: Op) -> str | None:
    """The attribute of *op* that names the layout of its data; None where it has none."""
    known = op.attrs_type.__dataclass_fields__ if op.attrs_type is not None else ()
    return next((name for name in ATTRIBUTES if name in known), None)


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


def _converted(op: Op, wanted: tuple[str, str], number: int, seed: int) -> Case | None:
    sample, (layout, kernel) = op.samples[number], wanted
    attrs, attribute = attributes(op, sample), _attribute_of(op)
    if attribute is None or getattr(attrs, attribute) != USUAL:
        return None
    try:
        function, arrays = call_function(op, attrs, sample_inputs(sample, seed))
        desired = [layout] if len(op.input_names) == 1 else [layout, kernel]
        main = transform.ConvertLayout({op.name: desired})(IRModule.from_expr(function))["main"]
        assert isinstance(main, Function)
        typed = function_of(main.params, main.body)
        call = next(n for n in post_order(typed.body) if isinstance(n, Call) and n.op is op)
        if not isinstance(call.attrs, Attrs) or getattr(call.attrs, attribute) != layout:
            return None
        values = node_values(typed, arrays, False)
        alone, given = _alone(call, [values[a] for a in call.args])
    except (ByocError, TypeError, ValueError, IndexError):
        return None
    if not is_computed(alone, given):
        return None
    order = "" if kernel == KERNELS[0] else f", weights {kernel}"
    return Case(f"{op.name}[{number}], {layout}{order}", op.name, LAYOUT, alone, (given,))


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
