"""Arguments that fit: what an operator may be called on beside a value that is there already.

Type relations say whether arguments fit, not which do; so likely shapes are tried, the operator's own samples first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import ByocError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op, Sample
from byoc.ir.types import TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Function, Var
from byoc.relay.traverse import post_order
from byoc.runtime.core.ndarray import dtype_name, numpy_dtype
from byoc.testing.cases.operators import attributes, sample_inputs

MOST_TRIED = 400  # combinations of shapes for one call
Given = dict[Var, np.ndarray]  # the inputs that were made, and what they are given


class SearchEnded(Exception):
    """A search tried as many calls as it may."""


@dataclass
class Budget:
    """How many calls a search may still try: a number, not a time, so that every machine makes the same cases."""

    left: int

    def spend(self) -> None:
        """Count one call. Raises SearchEnded where none is left."""
        self.left -= 1
        if self.left < 0:
            raise SearchEnded


def typed(call: RelayExpr) -> bool:
    """Whether the types of *call* fit."""
    try:
        infer_expr(Function([n for n in post_order(call) if isinstance(n, Var)], call))
    except (ByocError, TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError):
        return False
    return True


def sample_calls(
    op: Op, seed: int, count: int, samples: Sequence[Sample] | None = None, budget: Budget | None = None
) -> Iterator[tuple[Call, Given]]:
    """Calls of *op* with *count* tensors as arguments on new variables, like its samples, or like *samples*."""
    for sample in op.samples if samples is None else samples:
        if budget is not None:
            budget.spend()
        inputs = sample_inputs(sample, seed)
        arrays = [a for a in inputs if isinstance(a, np.ndarray)]
        if len(arrays) == len(inputs) == count:
            given = {new_input(a): a for a in arrays}
            call = Call(op, list(given), attributes(op, sample))
            if typed(call):
                yield call, given


def calls_on(
    op: Op,
    args: Sequence[RelayExpr | None],
    seed: int,
    samples: Sequence[Sample] | None = None,
    budget: Budget | None = None,
) -> Iterator[tuple[Call, Given]]:
    """Calls of *op* on *args*, with new variables that fit where there is None; attributes are those of *samples*."""
    here = next((a.checked_type for a in args if a is not None), None)
    open_places = [k for k, a in enumerate(args) if a is None]
    if not isinstance(here, TensorType) or not here.is_static:
        return
    chosen = op.samples if samples is None else samples
    tried = 0
    for sample in [s for s in chosen if len(s.inputs) == len(args)] or chosen[:1]:
        arrays = sample_inputs(sample, seed)
        choices = [list(_shapes(here, arrays[k] if k < len(arrays) else None)) for k in open_places]
        for shapes in itertools.product(*choices):
            tried += 1
            if tried > MOST_TRIED:
                return
            if budget is not None:
                budget.spend()
            made: dict[int, Var] = {}
            given: Given = {}
            for k, (shape, dtype) in zip(open_places, shapes, strict=True):
                array = numbers(shape, dtype, seed + k)
                made[k] = new_input(array)
                given[made[k]] = array
            call = Call(op, [made[k] if a is None else a for k, a in enumerate(args)], attributes(op, sample))
            if typed(call):
                yield call, given


def closed_calls(
    op: Op, args: Sequence[RelayExpr], samples: Sequence[Sample] | None = None, budget: Budget | None = None
) -> Iterator[tuple[Call, Given]]:
    """Calls of *op* on *args* with the attributes of its samples, or of *samples*."""
    chosen = op.samples if samples is None else samples
    for attrs in dict.fromkeys(attributes(op, s) for s in chosen):
        if budget is not None:
            budget.spend()
        call = Call(op, args, attrs)
        if typed(call):
            yield call, {}


def new_input(array: np.ndarray) -> Var:
    """A variable of the type of *array*."""
    made = Var("p", TensorType(array.shape, dtype_name(array.dtype)))
    made._checked_type = made.type_annotation
    return made


def numbers(shape: Sequence[int], dtype: str, seed: int) -> np.ndarray:
    """Seeded numbers in [-2, 2)."""
    values = np.random.default_rng(seed).uniform(-2, 2, tuple(shape))
    wanted = numpy_dtype(dtype)
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(values) if wanted.kind == "u" else values).astype(wanted)


def _shapes(here: TensorType, sample: object) -> Iterator[tuple[tuple[int, ...], str]]:
    """Shapes and dtypes that may fit beside a tensor like *here*; *sample* is what the operator's sample has."""
    shape = here.concrete_shape
    found: list[tuple[int, ...]] = []
    if isinstance(sample, np.ndarray):
        own = sample.shape
        found.append(own)
        if own and shape:
            found.append((*own[:-1], shape[-1]))
        if len(own) > 1 and len(shape) > 1:
            found.append((own[0], shape[1], *own[2:]))
    if shape:
        found += [(shape[-1],), (shape[0],), (4, shape[-1])]
    if len(shape) > 1:
        found += [(shape[1],), (shape[1], *(1 for _ in shape[2:])), (1, shape[1], *(1 for _ in shape[2:]))]
    found += [shape, ()]
    dtypes = [here.dtype]
    if isinstance(sample, np.ndarray) and dtype_name(sample.dtype) != here.dtype:
        dtypes.append(dtype_name(sample.dtype))
    for candidate in dict.fromkeys(found):
        for dtype in dtypes:
            yield candidate, dtype
