"""Some calls of a graph as a function of their own, whose nodes still say which of the calls they were made from.

A cost model runs the generator's own passes on it. Passes keep spans, so that each call in it carries its number in the
lines of its span, where nothing else has one so large; names stay as they are.

What a share is, whatever graph it stands in, is its form: what follows from it alone need not be found twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.span import AnySpan, SequentialSpan, Span
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.traverse import keep_type, post_order

KNOWN_BYTES = 1 << 12
FIRST = 1 << 32  # the line that stands for the first call: beyond those of any text


def producers(value: RelayExpr) -> Iterable[RelayExpr]:
    """What makes *value*: tuples and projections looked through."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, TupleGetItem):
            whole = node.tuple_value
            stack.append(whole.fields[node.index] if isinstance(whole, Tuple) else whole)
        elif isinstance(node, Tuple):
            stack.extend(reversed(node.fields))
        else:
            yield node


def read_by(calls: Iterable[Call]) -> set[RelayExpr]:
    """What *calls* read."""
    return {p for call in calls for arg in call.args for p in producers(arg)}


def function_of(
    calls: Sequence[Call],
    leaving: Collection[RelayExpr] = (),
    given: Mapping[RelayExpr, Constant] | None = None,
) -> Function:
    """*calls*, in topological order, as a function: of what they read from outside, to those that none of them reads
    and those *leaving*. Constants stay, and stand for the values that *given* says.

    The k-th call has the line ``FIRST + k`` in its span, and so has a parameter that it reads first.
    """
    inside = set(calls)
    read = read_by(calls)
    made: dict[RelayExpr, RelayExpr] = dict(given or {})
    params: list[Var] = []
    for k, call in enumerate(calls):
        for arg in call.args:
            _make(arg, inside, made, params, k)
        span = _numbered(call.span, FIRST + k)
        copy = Call(call.op, [made[a] for a in call.args], call.attrs, call._type_args, span)
        made[call] = keep_type(call, copy)
    results = [made[call] for call in calls if call not in read or call in leaving]
    return Function(params, results[0] if len(results) == 1 else Tuple(results))


def _make(
    value: RelayExpr, inside: set[Call], made: dict[RelayExpr, RelayExpr], params: list[Var], reader: int
) -> None:
    """Put into *made* what stands for *value*: itself for a constant, a parameter for what is made outside."""
    stack = [value]
    while stack:
        node = stack[-1]
        parts = node.fields if isinstance(node, Tuple) else ()
        if isinstance(node, TupleGetItem) and (node.tuple_value in inside or isinstance(node.tuple_value, Tuple)):
            parts = (node.tuple_value,)
        waiting = [p for p in parts if p not in made]
        if node not in made and waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        if node in made:
            continue
        if isinstance(node, Tuple):
            made[node] = keep_type(node, Tuple([made[f] for f in node.fields], _numbered(node.span, 0)))
        elif isinstance(node, TupleGetItem) and parts:
            part = TupleGetItem(made[node.tuple_value], node.index, _numbered(node.span, 0))
            made[node] = keep_type(node, part)
        elif isinstance(node, Constant):
            made[node] = node
        else:
            params.append(Var(f"x{len(params)}", node.checked_type, _numbered(node.span, FIRST + reader)))
            made[node] = params[-1]


def _numbered(span: AnySpan | None, line: int) -> AnySpan | None:
    """The names of *span* at *line*."""
    if span is None:
        return Span(None, line) if line else None
    spans = tuple(dict.fromkeys(Span(s.source_name, line) for s in span.spans))
    return spans[0] if len(spans) == 1 else SequentialSpan(spans)


def numbers_of(span: AnySpan | None) -> list[int]:
    """The numbers of the calls in *span*."""
    return sorted({s.line - FIRST for s in span.spans if s.line >= FIRST}) if span is not None else []


def form_of(calls: Sequence[Call], leaving: Collection[RelayExpr] = ()) -> Hashable | None:
    """What *calls*, in topological order and typed, and those *leaving* are: equal for shares of which each call has
    the operator, the attributes, the types and the sources of the other's. None where that cannot be said: for calls
    of functions with more than calls in them, and for attributes without a hash.

    Constants of up to :data:`KNOWN_BYTES` are known by their bytes, larger ones by a sample of them.
    """
    known: dict[RelayExpr, Hashable] = {call: k for k, call in enumerate(calls)}
    try:
        formed = tuple([_form_of_call(call, known) for call in calls])
        form = (formed, frozenset(known[call] for call in leaving))
        hash(form)
        return form
    except (TypeError, KeyError, _FormlessError):
        return None


class _FormlessError(Exception):
    """There is something in it that no form says."""


def _form_of_call(call: Call, known: dict[RelayExpr, Hashable]) -> Hashable:
    op = call.op
    made_by = (op, op.pattern, op.operations, op.compute) if isinstance(op, Op) else _form_of_function(op)
    return made_by, call.attrs, call.checked_type, tuple([_form_of_value(arg, known) for arg in call.args])


def _form_of_function(function: RelayExpr) -> Hashable:
    if not isinstance(function, Function):
        raise _FormlessError
    known: dict[RelayExpr, Hashable] = {param: ("parameter", k) for k, param in enumerate(function.params)}
    nodes = [n for n in post_order(function.body) if not isinstance(n, (Tuple, TupleGetItem, Constant, Var))]
    calls = [n for n in nodes if isinstance(n, Call)]
    if len(calls) < len(nodes):
        raise _FormlessError
    known.update((call, k) for k, call in enumerate(calls))
    body = tuple([_form_of_call(call, known) for call in calls])
    types = tuple([param.checked_type for param in function.params])
    attrs = tuple(sorted(function.attrs.items()))
    return types, attrs, body, _form_of_value(function.body, known)


def _form_of_value(value: RelayExpr, known: dict[RelayExpr, Hashable]) -> Hashable:
    """What a call reads: a value, a tuple of values, or a part of one; no tuples of tuples."""
    if isinstance(value, Tuple):
        return ("tuple", *[_form_of_part(field, known) for field in value.fields])
    return _form_of_part(value, known)


def _form_of_part(value: RelayExpr, known: dict[RelayExpr, Hashable]) -> Hashable:
    if isinstance(value, TupleGetItem):
        return "item", value.index, _form_of_whole(value.tuple_value, known)
    return _form_of_whole(value, known)


def _form_of_whole(value: RelayExpr, known: dict[RelayExpr, Hashable]) -> Hashable:
    """By its number what is known, by its type what is new, which is numbered."""
    found = known.get(value)
    if found is not None:
        return found
    if isinstance(value, (Tuple, TupleGetItem)):
        raise _FormlessError
    if isinstance(value, Constant):
        found = known[value] = "constant", value.checked_type, _sampled(value.data.numpy())
        return found
    known[value] = "given", len(known)
    return "given", len(known), value.checked_type


def _sampled(array: np.ndarray) -> Hashable:
    if array.dtype.hasobject:
        raise _FormlessError
    if array.nbytes > KNOWN_BYTES:
        array = array.ravel(order="K")[:: -(-array.nbytes // KNOWN_BYTES)]
    return hash(array.tobytes())


class Origins:
    """Which of *calls* pay for what was made of them by passes over their :func:`function_of`: the calls *made*.

    *gone* are those whose number nothing has: views that were carried to another place, and what was folded.
    """

    def __init__(self, calls: Sequence[Call], made: Iterable[Call]):
        self._calls = calls
        gone = set(range(len(calls))).difference(*(numbers_of(call.span) for call in made))
        number = {call: k for k, call in enumerate(calls)}
        self._gone_beside: dict[int, list[int]] = {}
        for k, call in enumerate(calls):
            for p in sorted(number[p] for p in read_by([call]) if isinstance(p, Call) and p in number):
                if k in gone:
                    self._gone_beside.setdefault(p, []).append(k)
                if p in gone:
                    self._gone_beside.setdefault(k, []).append(p)

    def payer(self, call: Call, near: AnySpan | None) -> Call:
        """The one of the calls to whose account *call* is put: of its operator among its origins, else one that is gone
        beside them, as a view that was carried to there; else the last of its origins.

        *near* is the span of its group, for a call without a number.
        """
        numbers = numbers_of(call.span) or numbers_of(near) or [0]
        same = [k for k in numbers if self._calls[k].op is call.op] or self._gone(numbers, call)
        return self._calls[(same or numbers)[-1]]

    def _gone(self, numbers: Sequence[int], call: Call) -> list[int]:
        """The nearest of the operator of *call* on paths from *numbers* through calls that are gone."""
        queue, seen = deque(numbers), set(numbers)
        while queue:
            for other in self._gone_beside.get(queue.popleft(), ()):
                if self._calls[other].op is call.op:
                    return [other]
                if other not in seen:
                    seen.add(other)
                    queue.append(other)
        return []
