"""Loops and scans as functions that call themselves. Source: ONNX Loop-1/11/13/16/19/21, Scan-8/9/11/16/19/21.

A step, which is straight code, takes the number of the run, the greatest number of runs and the carried values, and
gives the next number, whether there is another run, the values to carry on and one element of each scan output; these
are collected in sequences, which are joined at the end. A carried value whose sizes change from run to run has no size
in its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import GraphProto

from byoc import relay
from byoc.errors import ImportModelError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.types import TensorType, Type
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, If, Tuple, Var, constant
from byoc.relay.frontend.onnx.decisions import Captured, fields_of, scalar, straight, type_of_whole, whole
from byoc.relay.frontend.onnx.node import BranchesDifferError, OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.frontend.onnx.scope import as_sequence, known_fields
from byoc.relay.frontend.onnx.subgraphs import InnerGraph
from byoc.relay.op import sequence
from byoc.relay.op.sequence import element_of, joined_element

LONGEST = np.iinfo(np.int64).max  # of a loop without a number of runs
MOST_ENTRIES = 64  # of a batch, each of which is a loop of its own (Scan-8)
INDEX, CONDITION = TensorType((), "int64"), TensorType((), "bool")


@dataclass(frozen=True)
class Taken:
    """A tensor of which each run takes one slice along *axis*, from the last on where it is *backward*.

    A sequence gives one element each run; a tensor without an *axis* is the same in every run.
    """

    value: RelayExpr
    axis: int | None = None
    backward: bool = False


@dataclass(frozen=True)
class Collected:
    """How a scan output is put together: along a new *axis*, the last run first where it is *backward*.

    Without an *axis* it stays a sequence.
    """

    axis: int | None = 0
    backward: bool = False


@dataclass(frozen=True)
class Recurrence:
    """What is repeated: *graph*, whose first *leading* inputs and outputs are a loop's own (number and condition).

    *going* says whether the first run happens, *limit* how many there are at most; runs are counted from *begin*.
    """

    graph: GraphProto
    leading: int
    initial: Sequence[RelayExpr]
    taken: Sequence[Taken]
    collected: Sequence[Collected]
    going: RelayExpr
    limit: RelayExpr
    begin: int = 0


@dataclass
class LoopStep:
    """The function of one run, and the types that hold in every run.

    Carried values that are the *same* in every run, by number, it does not give back.
    """

    function: GlobalVar
    inner: InnerGraph
    carried: Sequence[Type]
    elements: Sequence[TensorType] = field(default_factory=tuple)
    same: Sequence[int] = ()


@converter("Loop")
def _loop(node: OnnxNode) -> list[RelayExpr]:
    graph = node.attrs.graph("body")
    initial = [as_sequence(node[k]) for k in range(2, len(node.inputs))]
    if len(graph.input) != 2 + len(initial) or len(graph.output) < 1 + len(initial):
        raise node.error(
            f"{len(initial)} values are carried, its body takes {len(graph.input) - 2} and gives "
            f"{len(graph.output) - 1}; a body takes as many, and gives at least as many, after the condition"
        )
    given, condition = node.optional(0), node.optional(1)
    limit = constant(np.int64(LONGEST)) if given is None else scalar(node, given)
    going: RelayExpr = relay.less(constant(np.int64(0)), limit)
    if condition is not None:
        going = relay.logical_and(scalar(node, condition), going)
    collected = [Collected()] * (len(graph.output) - 1 - len(initial))
    of = Recurrence(graph, 1, initial, (), collected, going, limit)
    before = node.services.functions.state()
    try:
        return repeated(node, of)
    except BranchesDifferError:
        raise
    except ImportModelError as error:  # the first run may make other ranks of what it begins with
        node.services.functions.restore(before)
        return _behind_first_run(node, of, error)


def _behind_first_run(node: OnnxNode, of: Recurrence, error: ImportModelError) -> list[RelayExpr]:
    """The first run by itself and a loop of all others, whose values have the ranks that the first one gives.

    A run of the model in which the loop does not run at all is an error. Raises *error* where ranks change again.
    """
    states, first = len(of.initial), constant(np.int64(0))
    own = [_as_declared(v, of.graph, k) for k, v in enumerate((first, constant(np.bool_(True))))]
    try:
        outputs = node.services.inlined(of.graph, [*own, *of.initial])
    except ImportModelError:
        raise error from None
    check = f"{node.place}: whether its body runs, after which a carried value has another rank"
    checked = [_under(v, of.going, check) for v in outputs[1:]]
    after = relay.less(constant(np.int64(1)), of.limit)
    going = relay.logical_and(scalar(node, outputs[0]), after)
    rest = replace(of, initial=checked[:states], going=going, begin=1)
    found = repeated(node, rest)
    for k, element in enumerate(checked[states:], states):
        found[k] = relay.concatenate([relay.expand_dims(element, axis=0), found[k]], axis=0)
    return found


def _under(value: RelayExpr, condition: RelayExpr, check: str) -> RelayExpr:
    """*value*, of a run in which *condition* holds; else the run is an error, which begins with *check*."""
    shape = infer_expr(value)
    if not isinstance(shape, TensorType):
        return value
    if shape.ndim:
        return _typed(relay.check_condition(value, condition, True, check))
    return _typed(relay.reshape(relay.check_condition(relay.reshape(value, [1]), condition, True, check), []))


@converter("Scan", since=8)
def _scan_of_batch(node: OnnxNode) -> list[RelayExpr]:
    """Each entry of the batch, the first axis of all values, by itself; sequences lie along the second."""
    if node.optional(0) is not None:
        raise node.error("sequence_lens is not supported; cut the sequences, or export the model with opset 9 or later")
    values, count = node.inputs[1:], node.attrs.int("num_scan_inputs")
    given = [value for value in values if value is not None]
    if len(given) != len(values) or not 0 < count <= len(values):
        raise node.error(f"{count} of {len(values)} inputs are scanned, and none of them can be left out")
    batches = {node.static_dims_of(value, [0], "the batch of Scan-8")[0] for value in given}
    if len(batches) != 1 or not 0 < max(batches) <= MOST_ENTRIES:
        raise node.error(f"all inputs have one batch of 1 to {MOST_ENTRIES} entries, got {sorted(batches)}")
    directions = node.attrs.ints("directions", [0] * count)
    rows = []
    for entry in range(max(batches)):
        inputs = [_typed(relay.take(value, constant(np.int64(entry)), axis=0)) for value in given]
        rows.append(_scan_over(node.over(inputs), [0] * count, directions, ([], [])))
    return [relay.stack([row[k] for row in rows], axis=0) for k in range(len(rows[0]))]


@converter("Scan", since=9)
def _scan(node: OnnxNode) -> list[RelayExpr]:
    count = node.attrs.int("num_scan_inputs")
    axes, directions = (node.attrs.ints(f"scan_input_{w}", [0] * count) for w in ("axes", "directions"))
    axes_of_outputs, backward = (node.attrs.ints(f"scan_output_{w}", []) for w in ("axes", "directions"))
    return _scan_over(node, axes, directions, (axes_of_outputs, backward))


def _scan_over(
    node: OnnxNode, axes: Sequence[int], directions: Sequence[int], outputs_along: tuple[Sequence[int], Sequence[int]]
) -> list[RelayExpr]:
    """The scan of *node* over its last inputs; *outputs_along* are axes and directions of outputs, empty for 0."""
    graph = node.attrs.graph("body")
    count = node.attrs.int("num_scan_inputs")
    states = len(node.inputs) - count
    outputs = len(graph.output) - states
    if count < 1 or states < 0 or outputs < 0 or len(graph.input) != len(node.inputs):
        raise node.error(
            f"its body takes {len(graph.input)} values and gives {len(graph.output)}, where {states} are carried and "
            f"{count} are scanned"
        )
    ends = [list(given) or [0] * outputs for given in outputs_along]
    if len(axes) != count or len(directions) != count:
        raise node.error(f"{count} inputs are scanned, got {len(axes)} axes and {len(directions)} directions")
    values = [node[states + k] for k in range(count)]
    taken = [Taken(v, node.axis(a, node.rank(v)), bool(d)) for v, a, d in zip(values, axes, directions, strict=True)]
    collected = [Collected(axis, bool(backward)) for axis, backward in zip(*ends, strict=True)]
    if len(collected) != outputs:
        raise node.error(f"its body has {outputs} scan outputs, got {len(collected)} axes and directions for them")
    limit = _size(node, taken[0])
    going = relay.less(constant(np.int64(0)), limit)
    return repeated(node, Recurrence(graph, 0, [node[k] for k in range(states)], taken, collected, going, limit))


def _size(node: OnnxNode, taken: Taken) -> RelayExpr:
    axis = taken.axis or 0
    size = node.shape(taken.value)[axis]
    if isinstance(size, int):
        return constant(np.int64(size))
    return relay.take(relay.shape_of(taken.value, "int64"), constant(np.int64(axis)))


@converter("SequenceMap", since=17)
def _map(node: OnnxNode) -> list[RelayExpr]:
    """The body once for each element of a sequence of a known length, else a loop over it."""
    graph = node.attrs.graph("body")
    fields, values = known_fields(node[0]), node.required_inputs()
    if fields is not None:
        rows = [node.services.inlined(graph, [_element(node, v, k) for v in values]) for k in range(len(fields))]
        return [Tuple([row[k] for row in rows]) for k in range(len(graph.output))]
    taken = [Taken(as_sequence(value)) for value in values]
    limit = sequence.length(values[0])
    collected = [Collected(None)] * len(graph.output)
    going = relay.less(constant(np.int64(0)), limit)
    return repeated(node, Recurrence(graph, 0, (), taken, collected, going, limit))


def _element(node: OnnxNode, value: RelayExpr, index: int) -> RelayExpr:
    fields = known_fields(value)
    if fields is None:
        several = element_of(infer_expr(value)) is not None
        return _typed(sequence.at(value, constant(np.int64(index)))) if several else value
    if index >= len(fields):
        raise node.error(f"one of its sequences has {len(fields)} elements, another more: they are of one length")
    return fields[index]


def repeated(node: OnnxNode, of: Recurrence) -> list[RelayExpr]:
    """The carried values after the last run, and what the runs collected."""
    functions, sizes = node.services.functions, node.services.sizes
    step = _step(node, of)
    captured = Captured(node, [step.inner])
    start = [Var("iteration", INDEX), Var("going", CONDITION), Var("limit", INDEX)]
    carried = [Var(f"carried{k}", sizes.outside(t)) for k, t in enumerate(step.carried)]
    scanned = [Var(f"scanned{k}", infer_expr(t.value)) for k, t in enumerate(of.taken)]
    fixed = [*scanned, *captured.params.values()]
    elements = [e for e in map(sizes.outside, step.elements) if isinstance(e, TensorType)]
    kept = [Var(f"collected{k}", sequence.sequence_of(e)) for k, e in enumerate(elements)]
    ends = [*carried, *(_joined(k, e, c) for k, e, c in zip(kept, elements, of.collected, strict=True))]
    result = type_of_whole([infer_expr(end) for end in ends])
    params = [*start, *carried, *kept, *fixed]
    loop = functions.declare(f"{node.name} loop", [infer_expr(p) for p in params], result)
    made = Call(step.function, [start[0], start[2], *carried, *scanned, *captured.handed_to(step.inner)])
    after = fields_of(made, 2 + len(carried) - len(step.same) + len(kept))
    given = iter(after[2:])
    values = [c if k in step.same else next(given) for k, c in enumerate(carried)]
    found = list(given)
    first = constant(np.int64(0))
    put = [
        sequence.insert(k, f, first if c.backward else None) for k, f, c in zip(kept, found, of.collected, strict=True)
    ]
    again = Call(loop, [after[0], after[1], start[2], *values, *put, *fixed])
    functions.define(loop, params, If(start[1], again, whole(ends)), node.name)
    entry = loop if not kept else _entry(node, loop, [*start, *carried], len(kept), fixed)
    begin = [constant(np.int64(of.begin)), of.going, of.limit, *of.initial, *(t.value for t in of.taken)]
    return fields_of(Call(entry, [*begin, *captured.values]), len(ends))


def _entry(node: OnnxNode, loop: GlobalVar, before: Sequence[Var], collected: int, after: Sequence[Var]) -> GlobalVar:
    """The function that begins with nothing collected: it takes tensors alone where the values carried are tensors."""
    mine = [[Var(p.name_hint, infer_expr(p)) for p in params] for params in (before, after)]
    params = [*mine[0], *mine[1]]
    call = Call(loop, [*mine[0], *(sequence.empty() for _ in range(collected)), *mine[1]])
    var = node.services.functions.declare(f"{node.name} start", [infer_expr(p) for p in params], infer_expr(call))
    return node.services.functions.define(var, params, call, node.name)


def _joined(kept: Var, element: TensorType, how: Collected) -> RelayExpr:
    return kept if how.axis is None else sequence.concat(kept, how.axis, True, element)


def _step(node: OnnxNode, of: Recurrence) -> LoopStep:
    """The step over types of carried values that hold in every run: sizes that change are made unknown, one by one."""
    sizes = node.services.sizes
    types: list[Type] = [infer_expr(v) for v in of.initial]
    names = [value.name for value in of.graph.input]
    while True:
        count, limit = Var("iteration", INDEX), Var("limit", INDEX)
        carried = [Var(name, sizes.named(t)) for name, t in zip(names[2 * of.leading :], types, strict=False)]
        scanned = [Var(f"scanned{k}", sizes.named(infer_expr(t.value))) for k, t in enumerate(of.taken)]
        own = (
            [_as_declared(v, of.graph, k) for k, v in enumerate((count, constant(np.bool_(True))))]
            if of.leading
            else []
        )
        slices = [_slice(v, t, count, limit) for v, t in zip(scanned, of.taken, strict=True)]
        inner = node.services.inner(of.graph, [*own, *carried, *slices])
        given = inner.types[of.leading :]
        found = [_both(node, p, t) for p, t in zip(carried, given, strict=False)]
        kept = [t if b == infer_expr(p) else sizes.outside(b) for t, p, b in zip(types, carried, found, strict=True)]
        if kept == types:
            break
        types = kept
    elements = [node.type_of(value) for value in inner.outputs[of.leading + len(carried) :]]
    after = relay.add(count, constant(np.int64(1)))
    going: RelayExpr = relay.less(after, limit)
    if of.leading:
        going = relay.logical_and(scalar(node, inner.outputs[0]), going)
    params = [count, limit, *carried, *scanned]
    given_back = inner.outputs[of.leading :]
    same = [k for k, param in enumerate(carried) if given_back[k] is param]
    changed = [value for k, value in enumerate(given_back) if k not in same]
    made = InnerGraph(params, inner.captured, [after, going, *changed])
    return LoopStep(straight(node, "body", made), inner, types, elements, same)


def _slice(value: Var, taken: Taken, count: Var, limit: Var) -> RelayExpr:
    if taken.axis is None:
        return value if element_of(infer_expr(value)) is None else _typed(sequence.at(value, count))
    place = count if not taken.backward else relay.subtract(relay.subtract(limit, constant(np.int64(1))), count)
    return _typed(relay.take(value, place, axis=taken.axis))


def _typed(made: RelayExpr) -> RelayExpr:
    infer_expr(made)
    return made


def _both(node: OnnxNode, param: Var, given: Type) -> Type:
    before = infer_expr(param)
    either = joined_element(before, given)
    if either is None:
        raise node.error(
            f"its body takes {before} as {param.name_hint!r} and gives {given} back: a carried value keeps its dtype "
            "and its rank"
        )
    return either


def _as_declared(value: RelayExpr, graph: GraphProto, index: int) -> RelayExpr:
    """*value*, a scalar, with the one dimension that some models declare for it."""
    rank = len(graph.input[index].type.tensor_type.shape.dim)
    made = relay.reshape(value, [1]) if rank == 1 else value
    infer_expr(made)
    return made
