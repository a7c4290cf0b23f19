"""Graphs made from a pattern: what it may match, on inputs like the operators' samples, with types that fit.

A :class:`Search` says of how many calls, with which seed, and, where one operator of the pattern is to be like one of
its samples, which.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op, Sample
from byoc.ir.types import TensorType
from byoc.relay.dataflow_pattern import patterns as p
from byoc.relay.dataflow_pattern.pattern_graph import PARTS, pattern_post_order
from byoc.relay.expr import Call, Constant, Tuple, TupleGetItem, Var
from byoc.testing.cases.fitting import Budget, Given, calls_on, closed_calls, new_input, numbers, sample_calls, typed
from byoc.testing.cases.operators import sample_inputs
from byoc.testing.core.case import constant

Built = tuple[RelayExpr, Given]
LEAVES = (p.WildcardPattern, p.VarPattern, p.ConstantPattern)
MOST_FIRST = 24  # calls on an input of a wanted shape that are tried before those like samples


class NotMade(Exception):
    """A pattern of which no graph is made: the text says which part."""


class NeverMatches(Exception):
    """A pattern that no graph can match: the text says why."""


@dataclass(frozen=True)
class Focus:
    """A call of *op* at a place of the pattern, which is to be like *sample*."""

    place: p.CallPattern
    op: Op
    sample: Sample


@dataclass(frozen=True)
class Search:
    """How graphs are made: the *seed* of their numbers, the calls that may be tried, what one call is to be like.

    *wanted* are arrays like the inputs that parts of the pattern should have, where their operators take them. *order*
    gives the samples of an operator, those first that are likely to be taken.
    """

    seed: int
    budget: Budget
    focus: Focus | None = None
    wanted: dict[p.DFPattern, np.ndarray] = field(default_factory=dict)
    order: Callable[[Op], Sequence[Sample]] = lambda op: op.samples


def graphs_of(pattern: p.DFPattern, search: Search) -> Iterator[Built]:
    """Graphs that *pattern* may match, each with the variables in it and what they are given.

    Raises NotMade for a pattern of which none is made, NeverMatches for one that has none, SearchEnded.
    """
    return _build(pattern, {}, search, {})


def focuses(pattern: p.DFPattern) -> list[tuple[p.CallPattern, Op]]:
    """The calls in *pattern*, and the operators that may stand there."""
    calls = [part for part in pattern_post_order(pattern) if isinstance(part, p.CallPattern)]
    return [(call, op) for call in calls for op, _ in _callees(call.op)]


def _build(
    pattern: p.DFPattern, known: dict[p.DFPattern, RelayExpr], search: Search, attrs: Mapping[str, object]
) -> Iterator[Built]:
    """Graphs that *pattern* may match; *known* is what parts of it stand for that occur twice. Raises NotMade."""
    if pattern in known:
        yield known[pattern], {}
        return
    rule = _RULES.get(type(pattern))
    if rule is None:
        raise NotMade(f"no graph is made of a {type(pattern).__name__}")
    like = search.wanted.get(pattern)
    if like is not None and not isinstance(pattern, p.CallPattern):
        search.wanted.update({part: like for part in PARTS[type(pattern)](pattern)})
    for expr, given in rule(pattern, known, search, attrs):
        known[pattern] = expr
        yield expr, given
        known.pop(pattern, None)


def _build_call(
    pattern: p.CallPattern, known: dict[p.DFPattern, RelayExpr], search: Search, attrs: Mapping[str, object]
) -> Iterator[Built]:
    focus = search.focus
    for op, extra in _callees(pattern.op):
        if focus is None or focus.place is not pattern:
            yield from _build_operator((pattern, op, None), known, search, {**extra, **attrs})
        elif focus.op is op:
            yield from _build_operator((pattern, op, [focus.sample]), known, search, {**extra, **attrs})


def _build_operator(
    what: tuple[p.CallPattern, Op, Sequence[Sample] | None],
    known: dict[p.DFPattern, RelayExpr],
    search: Search,
    wanted: Mapping[str, object],
) -> Iterator[Built]:
    """Calls of one operator at a place of the pattern, with the attributes and inputs of the samples, if any."""
    pattern, op, samples = what
    args = [p.wildcard() for _ in op.input_names] if pattern.args is None else list(pattern.args)
    _check_arity(op, len(args))
    inner = [a for a in args if not _is_leaf(a) or a in known]
    _want_inputs(search, what, args)
    likely = search.order(op) if samples is None else samples
    for parts in _each(inner, known, search):
        built = dict(zip(inner, (expr for expr, _ in parts), strict=True))
        before: Given = {}
        for _, given in parts:
            before.update(given)
        places = [built.get(a, known.get(a)) for a in args]  # a leaf may stand in what is built before it too
        calls: Iterator[tuple[Call, Given]]
        if not inner:
            calls = itertools.chain(
                itertools.islice(_on_wanted(op, search, pattern, len(args)), MOST_FIRST if samples is None else 0),
                sample_calls(op, search.seed, len(args), likely, search.budget),
            )
        elif None in places:
            calls = calls_on(op, places, search.seed, likely, search.budget)
        else:
            calls = closed_calls(op, [e for e in places if e is not None], likely, search.budget)
        for call, new in calls:
            changed = _with_attributes(call, wanted)
            if changed is None:
                continue
            expr, more = _as_leaves(changed, args, new)
            leaves = {a: e for a, e in zip(args, expr.args, strict=True) if _is_leaf(a) and a not in known}
            known.update(leaves)
            yield expr, {**before, **more}
            for leaf in leaves:
                known.pop(leaf, None)


def _check_arity(op: Op, count: int) -> None:
    """Raises NeverMatches where no call of *op* has so many arguments."""
    counts = {len(op.input_names), *(len(s.inputs) for s in op.samples)}
    if not op.variadic and count not in counts:
        takes = " or ".join(map(str, sorted(counts)))
        raise NeverMatches(
            f"a call of {op.name} has {takes} arguments ({', '.join(op.input_names)}), the pattern says {count}"
        )


def _want_inputs(
    search: Search, what: tuple[p.CallPattern, Op, Sequence[Sample] | None], args: Sequence[p.DFPattern]
) -> None:
    """Have what stands before a call give it inputs like those of its sample, or like what is wanted of itself."""
    pattern, _, samples = what
    if samples:
        given = sample_inputs(samples[0], search.seed)
        search.wanted.update({a: v for a, v in zip(args, given, strict=False) if isinstance(v, np.ndarray)})
    elif pattern in search.wanted and args:
        search.wanted.update({a: search.wanted[pattern] for a in args[:1]})


def _on_wanted(op: Op, search: Search, pattern: p.CallPattern, count: int) -> Iterator[tuple[Call, Given]]:
    """Calls of *op* on an input like the one that is wanted."""
    like = search.wanted.get(pattern)
    if like is None or not count:
        return
    first = new_input(like)
    places: list[RelayExpr | None] = [first, *(None for _ in range(count - 1))]
    made = calls_on(op, places, search.seed, None, search.budget) if count > 1 else None
    for call, given in made or closed_calls(op, [first], None, search.budget):
        yield call, {first: like, **given}


def _each(
    patterns: Sequence[p.DFPattern], known: dict[p.DFPattern, RelayExpr], search: Search
) -> Iterator[tuple[Built, ...]]:
    """Every combination of graphs for *patterns*, the first changing slowest."""
    if not patterns:
        yield ()
        return
    for first in _build(patterns[0], known, search, {}):
        for rest in _each(patterns[1:], known, replace(search, seed=search.seed + 7)):
            yield (first, *rest)


def _with_attributes(call: Call, wanted: Mapping[str, object]) -> Call | None:
    if not wanted:
        return call
    known = call.attrs.keys() if call.attrs is not None else ()
    if any(name not in known for name in wanted):
        return call  # of the operator itself, as TOpPattern: the match decides
    changed = Call(call.op, call.args, replace(call.attrs, **wanted))
    return changed if typed(changed) else None


def _as_leaves(call: Call, args: Sequence[p.DFPattern], given: Given) -> tuple[Call, Given]:
    """*call* with constants where the pattern wants constants, and variables of the names that it wants."""
    new: list[RelayExpr] = []
    kept = dict(given)
    for pattern, arg in zip(args, call.args, strict=True):
        leaf = _innermost(pattern)
        if isinstance(leaf, p.ConstantPattern) and isinstance(arg, Var) and arg in kept:
            new.append(constant(kept.pop(arg)))
        elif isinstance(leaf, p.ExprPattern) and isinstance(leaf.expr, Constant) and isinstance(arg, Var):
            kept.pop(arg, None)
            new.append(leaf.expr)
        else:
            new.append(arg)
    made = Call(call.op, new, call.attrs)
    return (made, kept) if typed(made) else (call, given)


def _callees(pattern: p.DFPattern) -> list[tuple[Op, Mapping[str, object]]]:
    """The operators that a call's callee may be, each with the attributes that the pattern wants of it."""
    if isinstance(pattern, p.AttrPattern):
        return [(op, {**extra, **pattern.attrs}) for op, extra in _callees(pattern.pattern)]
    if isinstance(pattern, p.ExprPattern) and isinstance(pattern.expr, Op):
        return [(pattern.expr, {})]
    if isinstance(pattern, p.AltPattern):
        return [*_callees(pattern.left), *_callees(pattern.right)]
    raise NotMade(f"no graph is made of a call of a {type(pattern).__name__}")


def _innermost(pattern: p.DFPattern) -> p.DFPattern:
    while isinstance(pattern, (p.TypePattern, p.DataTypePattern, p.ShapePattern)):
        pattern = pattern.pattern
    return pattern


def _is_leaf(pattern: p.DFPattern) -> bool:
    inner = _innermost(pattern)
    if isinstance(inner, p.WildcardPattern):
        return inner.pattern is None
    return isinstance(inner, LEAVES) or (isinstance(inner, p.ExprPattern) and isinstance(inner.expr, Constant))


def _build_leaf(
    pattern: p.DFPattern, known: dict[p.DFPattern, RelayExpr], search: Search, attrs: Mapping[str, object]
) -> Iterator[Built]:
    like = [search.wanted[pattern]] if pattern in search.wanted else []
    for array in (*like, *(numbers(shape, "float32", search.seed) for shape in ((2, 3, 4), (1, 4, 6, 6), (2, 4)))):
        var = new_input(array)
        yield (constant(array), {}) if isinstance(pattern, p.ConstantPattern) else (var, {var: array})


def _build_alternative(
    pattern: p.AltPattern, known: dict[p.DFPattern, RelayExpr], search: Search, attrs: Mapping[str, object]
) -> Iterator[Built]:
    """Both sides in turn, so that each is among the first. One that nothing matches counts where both are so."""
    sides = [_build(side, dict(known), search, attrs) for side in (pattern.left, pattern.right)]
    never: list[NeverMatches] = []
    while sides:
        for side in list(sides):
            try:
                found = next(side, None)
            except NeverMatches as error:
                never.append(error)
                found = None
            if found is None:
                sides.remove(side)
            else:
                yield found
    if len(never) > 1:
        raise never[0]


def _build_inner(
    pattern: p.TypePattern | p.DataTypePattern | p.ShapePattern,
    known: dict[p.DFPattern, RelayExpr],
    search: Search,
    attrs: Mapping[str, object],
) -> Iterator[Built]:
    for expr, given in _build(pattern.pattern, known, search, attrs):
        ty = expr.checked_type
        if isinstance(ty, TensorType) and _is_of(pattern, ty):
            yield expr, given


def _is_of(pattern: p.TypePattern | p.DataTypePattern | p.ShapePattern, ty: TensorType) -> bool:
    if isinstance(pattern, p.TypePattern):
        return bool(ty == pattern.type)
    return ty.dtype == pattern.dtype if isinstance(pattern, p.DataTypePattern) else ty.shape == pattern.shape


def _build_attributes(
    pattern: p.AttrPattern, known: dict[p.DFPattern, RelayExpr], search: Search, attrs: Mapping[str, object]
) -> Iterator[Built]:
    yield from _build(pattern.pattern, known, search, {**pattern.attrs, **attrs})


def _build_tuple(
    pattern: p.TuplePattern, known: dict[p.DFPattern, RelayExpr], search: Search, attrs: Mapping[str, object]
) -> Iterator[Built]:
    if pattern.fields is None:
        raise NotMade("no graph is made of a tuple whose fields are open")
    for parts in _each(list(pattern.fields), known, search):
        made = Tuple([expr for expr, _ in parts])
        if typed(made):
            yield made, {var: array for _, given in parts for var, array in given.items()}


def _build_item(
    pattern: p.TupleGetItemPattern, known: dict[p.DFPattern, RelayExpr], search: Search, attrs: Mapping[str, object]
) -> Iterator[Built]:
    for expr, given in _build(pattern.tuple, known, search, attrs):
        made = TupleGetItem(expr, max(pattern.index, 0))
        if typed(made):
            yield made, given


_RULES: dict[type, Callable[..., Iterator[Built]]] = {
    p.CallPattern: _build_call,
    p.WildcardPattern: _build_leaf,
    p.VarPattern: _build_leaf,
    p.ConstantPattern: _build_leaf,
    p.AltPattern: _build_alternative,
    p.TypePattern: _build_inner,
    p.DataTypePattern: _build_inner,
    p.ShapePattern: _build_inner,
    p.AttrPattern: _build_attributes,
    p.TuplePattern: _build_tuple,
    p.TupleGetItemPattern: _build_item,
}
