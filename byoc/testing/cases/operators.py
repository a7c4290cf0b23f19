"""Cases of single operators: samples, their inputs variable or constant, empty, of free size, in other element types,
with a NaN.

Each case is one that the backend takes by its verdict. What is not taken makes no case; a verdict that raises does, in
its own way (:class:`BackendAnswers`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from byoc.base.progress import Progress
from byoc.contract.backend import Backend
from byoc.contract.verdict import FAILED_CODE, Reason, asked, callee_name
from byoc.errors import ByocError, vendors_line
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op, Sample
from byoc.ir.types import Any, TensorType, tensor_types
from byoc.relay.expr import Call, Function, Tuple, Var
from byoc.relay.traverse import dataflow_children, post_order
from byoc.runtime.core.ndarray import dtype_name, numpy_dtype
from byoc.testing.cases.reranked import in_ranks
from byoc.testing.cases.retyped import OTHERS, OWN, in_dtype, is_known
from byoc.testing.core.case import CONSTANT, Arrays, Case, constant, function_of
from byoc.testing.core.reference import outputs_of

SAMPLE, EMPTY, FREE, DTYPE = "sample", "empty tensors", "free sizes", "element types"
EXCHANGED = "exchanged inputs"
MOST_LOST_VERDICTS = 3  # of one operator, in which a worker crashes or comes to no end
DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64")
Inputs = list["np.ndarray | list[np.ndarray]"]  # a tuple argument is a list
InputPlace = tuple[int, int]  # an input, and which tensor of it
Dims = Callable[[InputPlace, int, int], "int | Any"]  # (place, axis, size) -> the dimension in the type


@dataclass
class BackendAnswers:
    """What a backend said: verdicts and constraints that failed when asked, by case; patterns that match nothing, and
    others of which no case was made, each with why; the reasons of refusals, each with how often it was given, and
    those of each operator.

    *not_named* are the composites that are refused for their names, whatever they hold: nothing runs them; *by_name*
    are all that is refused so. *progress* is called with the case before each verdict; of those in *lost* no verdict is
    asked, and they are not taken; nor of an operator of which several were lost.
    """

    backend: Backend
    raised: dict[str, str] = field(default_factory=dict)
    unmade: dict[str, str] = field(default_factory=dict)
    never: dict[str, str] = field(default_factory=dict)
    not_named: dict[str, str] = field(default_factory=dict)
    refused: Counter[Reason] = field(default_factory=Counter)
    why_not: dict[str, dict[str, None]] = field(default_factory=dict)
    by_name: set[str] = field(default_factory=set)
    progress: Progress | None = None
    lost: frozenset[str] = frozenset()

    def takes_call(self, call: Call, name: str) -> bool:
        """Whether *call*, which is typed, is taken."""
        if name in self.lost:
            return False
        asked_of = _asked_of(name)
        if sum(_asked_of(other) == asked_of for other in self.lost) >= MOST_LOST_VERDICTS:
            self.unmade[asked_of] = (
                f"its verdict crashed or came to no end {MOST_LOST_VERDICTS} times; no others are asked"
            )
            return False
        if self.progress is not None:
            self.progress(name)
        try:
            verdict = asked(self.backend.supports, call, self.backend.name)
            for reason in verdict.why:
                if not self.note_failure(reason, name):
                    self.refused[reason] += 1
                    self.why_not.setdefault(callee_name(call), {}).setdefault(str(reason))
                if reason.actual == callee_name(call):
                    self.by_name.add(reason.actual)
                if name == reason.actual == callee_name(call) and isinstance(call.op, Function):
                    self.not_named.setdefault(name, str(reason))
            return bool(verdict)
        except Exception as error:  # whatever a vendor's code raises
            self.raised[name] = f"its verdict raises {vendors_line(error)}"
            return False

    def note_failure(self, reason: Reason, name: str) -> bool:
        """Whether *reason* is a constraint that failed when asked about the case *name*, which is then kept."""
        if reason.code != FAILED_CODE:
            return False
        self.raised[name] = reason.text
        return True

    def takes(self, function: Function, name: str) -> bool:
        """Whether each call in *function* is taken."""
        calls = [n for n in post_order(function.body, dataflow_children) if isinstance(n, Call)]
        return bool(calls) and all(self.takes_call(call, name) for call in calls)


def _asked_of(name: str) -> str:
    """The operator or the pattern of a case: ``split`` of ``split[0], float16``."""
    return name.partition("[")[0]


def sample_inputs(sample: Sample, seed: int = 0) -> Inputs:
    """The inputs of a sample, as arrays that nobody else has."""
    return [[np.array(a) for a in item] if isinstance(item, list) else np.array(item) for item in sample.arrays(seed)]


def call_function(
    op: Op, attrs: Attrs | None, inputs: Inputs, constants: frozenset[int] = frozenset(), dims: Dims | None = None
) -> tuple[Function, Arrays]:
    """A call of *op* on parameters like *inputs*, those of these numbers constants, and what the parameters are given.

    Raises TypeInferenceError for inputs that do not fit.
    """
    params: list[Var] = []
    arrays: list[np.ndarray] = []
    args: list[RelayExpr] = []
    for k, item in enumerate(inputs):
        group: list[RelayExpr] = []
        for j, array in enumerate(item if isinstance(item, list) else [item]):
            if k in constants:
                group.append(constant(array))
                continue
            shape = [size if dims is None else dims((k, j), axis, size) for axis, size in enumerate(array.shape)]
            params.append(Var(f"x{k}_{j}", TensorType(shape, dtype_name(array.dtype))))
            group.append(params[-1])
            arrays.append(array)
        args.append(Tuple(group) if isinstance(item, list) else group[0])
    return function_of(params, Call(op, args, attrs)), tuple(arrays)


def attributes(op: Op, sample: Sample) -> Attrs | None:
    """The attributes of a sample's call."""
    return op.attrs_type(**sample.attrs) if op.attrs_type else None


def is_computed(function: Function, arrays: Sequence[np.ndarray]) -> bool:
    """Whether the reference computes *function* and gives what its type says; shapes that it finds included."""
    try:
        found = outputs_of(function, arrays, False)
    except Exception:  # kernels raise what they please
        return False
    types = tensor_types(function.body.checked_type)
    return all(
        dtype_name(a.dtype) == t.dtype
        and a.ndim == t.ndim
        and all(isinstance(d, Any) or d == n for d, n in zip(t.shape, a.shape, strict=True))
        for a, t in zip(found, types, strict=True)
    )


def operator_cases(asked: BackendAnswers, op: Op, seed: int) -> Iterator[Case]:
    """Every case of *op* alone that the backend takes, those of its first sample first.

    Where it takes no sample in its own type, all of them in the first other floating-point type in which it takes one;
    where in none, those of other ranks that it takes.
    """
    is_taken = False
    for k, sample in enumerate(op.samples):
        makers = (_as_it_is, _constant, _exchanged, _empty, _free, *([_other_types] if k == 0 else []))
        for make in makers:
            for case in make(asked, op, sample, (f"{op.name}[{k}]", seed)):
                is_taken = is_taken or case.kind != DTYPE
                yield case
    is_lost = any(name.startswith(f"{op.name}[") for name in asked.lost)  # where a verdict ended the process
    for dtype in OTHERS if not is_taken and not is_lost else ():
        if is_known(dtype):
            found = list(_in_dtype(asked, op, seed, dtype))
            if found:
                yield from found
                return
    if not is_taken and not is_lost and op.name not in asked.by_name:
        yield from _in_rank(asked, op, seed)


def _in_rank(asked: BackendAnswers, op: Op, seed: int) -> Iterator[Case]:
    """The cases of *op* on its samples in the first other rank in which the backend takes one, of each sample."""
    for k, sample in enumerate(op.samples):
        for rank, other in in_ranks(op, sample, sample_inputs(sample, seed)):
            named = (f"{op.name}[{k}] of rank {rank}", seed)
            found: list[Case] = []
            for make in (_as_it_is, _constant, _empty, _free):
                with suppress(ByocError, TypeError, ValueError, IndexError, ZeroDivisionError):  # what no relation has
                    found += make(asked, op, other, named)
            computed = [c for c in found if is_computed(c.function, c.feeds[0])]
            yield from computed
            if computed:
                break


def _in_dtype(asked: BackendAnswers, op: Op, seed: int, dtype: str) -> Iterator[Case]:
    """The cases of *op* on its samples of float32, in *dtype*."""
    for k, sample in enumerate(op.samples):
        if any(isinstance(a, np.ndarray) and a.dtype == OWN for a in sample_inputs(sample, seed)):
            other = in_dtype(sample, sample_inputs(sample, seed), dtype)
            for make in (_as_it_is, _constant, _empty, _free):
                try:
                    yield from make(asked, op, other, (f"{op.name}[{k}] in {dtype}", seed))
                except (ByocError, TypeError, ValueError):  # its relation has no such type
                    continue


def _attempt(
    asked: BackendAnswers, op: Op, kind: str, name: str, build: Callable[[], tuple[Function, Arrays]]
) -> Iterator[Case]:
    """The case of what *build* makes, if its types fit, the backend takes it and the reference computes it."""
    try:
        function, arrays = build()
    except (ByocError, TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError):
        return  # relations are written for what models have, and this is what they may refuse
    if asked.takes(function, name) and is_computed(function, arrays):
        yield Case(name, op.name, kind, function, (arrays,))


def _as_it_is(asked: BackendAnswers, op: Op, sample: Sample, named: tuple[str, int]) -> Iterator[Case]:
    name, seed = named
    function, arrays = call_function(op, attributes(op, sample), sample_inputs(sample, seed))
    if asked.takes(function, name):
        other = call_function(op, attributes(op, sample), sample_inputs(sample, seed + 1))[1]
        feeds = (arrays, other) if is_computed(function, other) else (arrays,)
        yield Case(name, op.name, SAMPLE, function, feeds)


def _constant(asked: BackendAnswers, op: Op, sample: Sample, named: tuple[str, int]) -> Iterator[Case]:
    """All inputs but the first constant, as weights are."""
    name, inputs = f"{named[0]}, constant inputs", sample_inputs(sample, named[1])
    if len(inputs) > 1:
        rest = frozenset(range(1, len(inputs)))
        yield from _attempt(asked, op, CONSTANT, name, lambda: call_function(op, attributes(op, sample), inputs, rest))


def _exchanged(asked: BackendAnswers, op: Op, sample: Sample, named: tuple[str, int]) -> Iterator[Case]:
    """The second input in the place of the first: of two that are broadcast, the lower rank then stands first."""
    inputs = sample_inputs(sample, named[1])
    tensors = [item for item in inputs if isinstance(item, np.ndarray)]
    if not op.traits.is_pointwise or len(tensors) != 2 or len(inputs) != 2 or tensors[0].shape == tensors[1].shape:
        return
    for constants in (frozenset[int](), frozenset({0})):
        name = f"{named[0]}, inputs exchanged{', the first constant' if constants else ''}"
        build = partial(call_function, op, attributes(op, sample), [inputs[1], inputs[0]], constants)
        yield from _attempt(asked, op, EXCHANGED, name, build)


def _empty(asked: BackendAnswers, op: Op, sample: Sample, named: tuple[str, int]) -> Iterator[Case]:
    """A first dimension of 0: of the first input, else of all that have as many rows."""
    name, inputs = f"{named[0]}, empty", sample_inputs(sample, named[1])
    for rows in _first_axes(inputs):
        emptied = [
            [_without_rows(a, (k, j) in rows) for j, a in enumerate(item)]
            if isinstance(item, list)
            else _without_rows(item, (k, 0) in rows)
            for k, item in enumerate(inputs)
        ]
        found = list(_attempt(asked, op, EMPTY, name, partial(call_function, op, attributes(op, sample), emptied)))
        if found:
            yield found[0]
            return


def _without_rows(array: np.ndarray, is_emptied: bool) -> np.ndarray:
    return array[:0] if is_emptied else array


def _free(asked: BackendAnswers, op: Op, sample: Sample, named: tuple[str, int]) -> Iterator[Case]:
    """A first dimension that is known when it runs, of two sizes."""
    name, inputs = f"{named[0]}, free size", sample_inputs(sample, named[1])
    for rows in _first_axes(inputs):

        def dims(place: InputPlace, axis: int, size: int, at: set[InputPlace] = rows) -> int | Any:
            return Any("N") if axis == 0 and place in at else size

        try:
            function, arrays = call_function(op, attributes(op, sample), inputs, dims=dims)
        except (ByocError, TypeError, ValueError, IndexError):
            continue
        if not _is_planned(function):
            continue
        if not asked.takes(function, name):  # before the reference computes anything
            continue
        is_any_data = all(not isinstance(item, (np.ndarray, list)) for item in sample.inputs)  # no indices, no lengths
        feeds = [arrays, *_longer(op, sample, inputs, rows)] if is_any_data else [arrays]
        feeds = [f for f in feeds if is_computed(function, f)]
        if feeds:
            yield Case(name, op.name, FREE, function, tuple(feeds))
            return


def _longer(op: Op, sample: Sample, inputs: Inputs, rows: set[InputPlace]) -> Iterator[Arrays]:
    """The inputs with a row more in *rows*, where an operator of these sizes takes them."""
    longer: Inputs = [
        item if (k, 0) not in rows or isinstance(item, list) else np.concatenate([item, item[:1]])
        for k, item in enumerate(inputs)
    ]
    try:
        yield call_function(op, attributes(op, sample), longer)[1]
    except (ByocError, TypeError, ValueError, IndexError):
        return


def _is_planned(function: Function) -> bool:
    """Whether each size of a result is a number, or one that an input has."""
    named = {
        d.name for p in function.params for t in tensor_types(p.checked_type) for d in t.shape if isinstance(d, Any)
    }
    dims = [d for t in tensor_types(function.body.checked_type) for d in t.shape]
    return all(not isinstance(d, Any) or (d.name and d.name in named) for d in dims)


def _first_axes(inputs: Inputs) -> Iterator[set[InputPlace]]:
    """Sets of inputs whose first axes may be one dimension: all that are as long as the first, and it alone."""
    tensors = [
        ((k, j), a) for k, item in enumerate(inputs) for j, a in enumerate(item if isinstance(item, list) else [item])
    ]
    if not tensors or tensors[0][1].ndim == 0 or tensors[0][1].shape[0] == 0:
        return
    rows = tensors[0][1].shape[0]
    same = {place for place, a in tensors if a.ndim and a.shape[0] == rows}
    if len(same) > 1:
        yield same
    yield {tensors[0][0]}


def _other_types(asked: BackendAnswers, op: Op, sample: Sample, named: tuple[str, int]) -> Iterator[Case]:
    """The inputs that have the first one's element type in each other type."""
    inputs = sample_inputs(sample, named[1])
    tensors = [a for item in inputs for a in (item if isinstance(item, list) else [item])]
    if not tensors or tensors[0].dtype.kind not in "fiu":
        return
    own = tensors[0].dtype
    for dtype in DTYPES:
        try:
            wanted = numpy_dtype(dtype)
        except ByocError:  # bfloat16 without its package
            continue
        if wanted != own:
            changed = [
                [_cast(a, own, wanted) for a in item] if isinstance(item, list) else _cast(item, own, wanted)
                for item in inputs
            ]
            yield from _attempt(
                asked,
                op,
                DTYPE,
                f"{named[0]}, {dtype}",
                partial(call_function, op, attributes(op, sample), changed),
            )


def _cast(array: np.ndarray, own: np.dtype, wanted: np.dtype) -> np.ndarray:
    if array.dtype != own:
        return array
    with np.errstate(all="ignore"):
        return (np.abs(array) if wanted.kind == "u" else array).astype(wanted)
