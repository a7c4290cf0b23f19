"""Some calls of a graph as a function of their own, whose nodes still say which of the calls they were made from.

A cost model runs the generator's own passes on it. Passes keep spans, so that each call in it carries its number in the
lines of its span, where nothing else has one so large; names stay as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.span import AnySpan, SequentialSpan, Span
from byoc.relay.analysis.operator_calls import traits_of
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var

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
        made[call] = Call(call.op, [made[a] for a in call.args], call.attrs, call._type_args, span)
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
            made[node] = Tuple([made[f] for f in node.fields], _numbered(node.span, 0))
        elif isinstance(node, TupleGetItem) and parts:
            made[node] = TupleGetItem(made[node.tuple_value], node.index, _numbered(node.span, 0))
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


class Origins:
    """Which of *calls* pay for what was made of them by passes over their :func:`function_of`: the calls *made*.

    *gone* are those of which nothing has the number: views that were carried to another place, and what was folded.
    """

    def __init__(self, calls: Sequence[Call], made: Iterable[Call]):
        self._calls = calls
        kept = {k for call in made for k in numbers_of(call.span)}
        self._gone = frozenset(range(len(calls))) - kept
        number = {call: k for k, call in enumerate(calls)}
        self._gone_readers: dict[int, list[int]] = {}
        for k in sorted(self._gone):
            for p in read_by([calls[k]]):
                if isinstance(p, Call) and p in number:
                    self._gone_readers.setdefault(number[p], []).append(k)

    def payer(self, call: Call, near: AnySpan | None) -> Call:
        """The one of the calls to whose account *call* is put: of its operator, else where it only moves the move that
        is gone behind its origin, else the last. *near* is the span of its group, for a call without a number.
        """
        numbers = numbers_of(call.span) or numbers_of(near) or [0]
        same = [k for k in numbers if self._calls[k].op is call.op]
        if not same and _moves(call):
            same = self._moves_behind(numbers)
        return self._calls[(same or numbers)[-1]]

    def _moves_behind(self, numbers: Sequence[int]) -> list[int]:
        """The first move on a way from *numbers* through calls that are gone; none where there is no such way."""
        queue, seen = deque(numbers), set(numbers)
        while queue:
            for reader in self._gone_readers.get(queue.popleft(), ()):
                if _moves(self._calls[reader]):
                    return [reader]
                if reader not in seen:
                    seen.add(reader)
                    queue.append(reader)
        return []


def _moves(call: Call) -> bool:
    """Whether *call* brings elements to other places, and does nothing else."""
    traits = traits_of(call)
    return traits is not None and traits.only_moves and not traits.is_view
