"""Cases of patterns: a graph made from each row of a backend's pattern table, each of its alternatives apart.

The graph is what the pattern says, on inputs like the operators' samples; it counts where the pattern matches it and
the backend takes the composite that comes of it. It is compiled as a region, and once more through the planner.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from byoc.contract.backend import PatternEntry
from byoc.contract.checks import pattern_entries
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import TensorType
from byoc.relay import transform
from byoc.relay.dataflow_pattern import patterns as p
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.traverse import post_order, substitute
from byoc.testing.cases.fitting import Given, calls_on, closed_calls, new_input, numbers, sample_calls, typed
from byoc.testing.cases.operators import Asked, is_computed
from byoc.testing.core.case import Case, constant, function_of

PATTERN = "patterns"
MOST_CANDIDATES = 300  # graphs that are made of one row
MOST_FORMS = 8  # different graphs of one row that become cases
Built = tuple[RelayExpr, Given]
LEAVES = (p.WildcardPattern, p.VarPattern, p.ConstantPattern)


class NotMade(Exception):
    """A pattern of which no graph is made: the text says which part."""


def pattern_cases(asked: Asked, seed: int) -> Iterator[Case]:
    """The cases of every row of the backend's pattern table; rows of which none is made stand in ``asked.unmade``."""
    for entry in pattern_entries(asked.backend):
        made = 0
        try:
            for case in _entry_cases(asked, entry, seed):
                made += 1
                yield case
            why = "no graph that is made from it is matched and taken"
        except NotMade as error:
            why = str(error)
        if not made:
            asked.unmade[entry.name] = why


def _entry_cases(asked: Asked, entry: PatternEntry, seed: int) -> Iterator[Case]:
    forms: set[tuple[str, ...]] = set()
    for expr, given in itertools.islice(_build(entry.pattern, {}, seed, {}), MOST_CANDIDATES):
        form = tuple(n.op.name for n in post_order(expr) if isinstance(n, Call) and isinstance(n.op, Op))
        if form in forms or not entry.pattern.match(expr):
            continue
        case = _case(asked, entry, expr, given)
        if case is None:
            continue
        forms.add(form)
        yield from _variants(asked, entry, (case, expr, given), len(forms) - 1)
        if len(forms) == MOST_FORMS:
            return


def _case(asked: Asked, entry: PatternEntry, expr: RelayExpr, given: Given) -> Case | None:
    """The composite of *expr* in a function, if the check and the verdict take it."""
    params = [Var(f"x{k}", var.type_annotation) for k, var in enumerate(given)]
    replaced: dict[RelayExpr, RelayExpr] = dict(zip(given, params, strict=True))
    plain = function_of(params, substitute(expr, replaced))
    merged = transform.MergeComposite([(entry.name, entry.pattern, entry.check)])(IRModule.from_expr(plain))["main"]
    assert isinstance(merged, Function)
    main = function_of(merged.params, merged.body)
    found = [n for n in post_order(main.body) if isinstance(n, Function) and n.attrs.get("Composite") == entry.name]
    arrays = tuple(given.values())
    if not found or not asked.takes(main, entry.name) or not is_computed(main, arrays):
        return None
    return Case(entry.name, entry.name, PATTERN, main, (arrays,))


def _variants(asked: Asked, entry: PatternEntry, first: tuple[Case, RelayExpr, Given], number: int) -> Iterator[Case]:
    case, expr, given = first
    name = f"{entry.name}[{number}]"
    yield replace(case, name=name)
    if len(given) > 1:
        data, *weights = given
        fixed: dict[RelayExpr, RelayExpr] = {var: constant(given[var]) for var in weights}
        held = substitute(expr, fixed)
        if typed(held):
            other = _case(asked, entry, held, {data: given[data]})
            if other is not None:
                yield replace(other, name=f"{name}, constant inputs")
    params = [Var(f"x{k}", var.type_annotation) for k, var in enumerate(given)]
    replaced: dict[RelayExpr, RelayExpr] = dict(zip(given, params, strict=True))
    plain = function_of(params, substitute(expr, replaced))
    yield replace(case, name=f"{name}, planned", function=plain, whole=True)


def _build(
    pattern: p.DFPattern, known: dict[p.DFPattern, RelayExpr], seed: int, attrs: Mapping[str, object]
) -> Iterator[Built]:
    """Graphs that *pattern* may match; *known* is what parts of it stand for that occur twice. Raises NotMade."""
    if pattern in known:
        yield known[pattern], {}
        return
    rule = _RULES.get(type(pattern))
    if rule is None:
        raise NotMade(f"no graph is made of a {type(pattern).__name__}")
    for expr, given in rule(pattern, known, seed, attrs):
        known[pattern] = expr
        yield expr, given
        known.pop(pattern, None)


def _build_call(
    pattern: p.CallPattern, known: dict[p.DFPattern, RelayExpr], seed: int, attrs: Mapping[str, object]
) -> Iterator[Built]:
    op, extra = _callee(pattern.op)
    wanted = {**extra, **attrs}
    args = [p.wildcard() for _ in op.input_names] if pattern.args is None else list(pattern.args)
    inner = [a for a in args if not _is_leaf(a) or a in known]
    for parts in _each(inner, known, seed):
        built = dict(zip(inner, (expr for expr, _ in parts), strict=True))
        before: Given = {}
        for _, given in parts:
            before.update(given)
        places = [built.get(a) for a in args]
        calls = calls_on(op, places, seed) if inner else sample_calls(op, seed, len(args))
        if inner and None not in places:
            calls = closed_calls(op, [e for e in places if e is not None])
        for call, new in calls:
            changed = _with_attributes(call, wanted)
            if changed is None:
                continue
            expr, more = _as_leaves(changed, args, new)
            known.update({a: e for a, e in zip(args, expr.args, strict=True) if _is_leaf(a)})
            yield expr, {**before, **more}
            for a in args:
                if _is_leaf(a):
                    known.pop(a, None)


def _each(
    patterns: Sequence[p.DFPattern], known: dict[p.DFPattern, RelayExpr], seed: int
) -> Iterator[tuple[Built, ...]]:
    """Every combination of graphs for *patterns*, the first changing slowest."""
    if not patterns:
        yield ()
        return
    for first in _build(patterns[0], known, seed, {}):
        for rest in _each(patterns[1:], known, seed + 7):
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


def _callee(pattern: p.DFPattern) -> tuple[Op, Mapping[str, object]]:
    extra: dict[str, object] = {}
    while isinstance(pattern, p.AttrPattern):
        extra.update(pattern.attrs)
        pattern = pattern.pattern
    if isinstance(pattern, p.ExprPattern) and isinstance(pattern.expr, Op):
        return pattern.expr, extra
    if isinstance(pattern, p.AltPattern):
        return _callee(pattern.left)
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
    pattern: p.DFPattern, known: dict[p.DFPattern, RelayExpr], seed: int, attrs: Mapping[str, object]
) -> Iterator[Built]:
    for shape in ((2, 3, 4), (1, 4, 6, 6), (2, 4)):
        array = numbers(shape, "float32", seed)
        var = new_input(array)
        yield (constant(array), {}) if isinstance(pattern, p.ConstantPattern) else (var, {var: array})


def _build_alternative(
    pattern: p.AltPattern, known: dict[p.DFPattern, RelayExpr], seed: int, attrs: Mapping[str, object]
) -> Iterator[Built]:
    """Both sides in turn, so that each is among the first."""
    sides = [_build(side, dict(known), seed, attrs) for side in (pattern.left, pattern.right)]
    while sides:
        for side in list(sides):
            found = next(side, None)
            if found is None:
                sides.remove(side)
            else:
                yield found


def _build_inner(
    pattern: p.TypePattern | p.DataTypePattern | p.ShapePattern,
    known: dict[p.DFPattern, RelayExpr],
    seed: int,
    attrs: Mapping[str, object],
) -> Iterator[Built]:
    for expr, given in _build(pattern.pattern, known, seed, attrs):
        ty = expr.checked_type
        if isinstance(ty, TensorType) and _is_of(pattern, ty):
            yield expr, given


def _is_of(pattern: p.TypePattern | p.DataTypePattern | p.ShapePattern, ty: TensorType) -> bool:
    if isinstance(pattern, p.TypePattern):
        return bool(ty == pattern.type)
    return ty.dtype == pattern.dtype if isinstance(pattern, p.DataTypePattern) else ty.shape == pattern.shape


def _build_attributes(
    pattern: p.AttrPattern, known: dict[p.DFPattern, RelayExpr], seed: int, attrs: Mapping[str, object]
) -> Iterator[Built]:
    yield from _build(pattern.pattern, known, seed, {**pattern.attrs, **attrs})


def _build_tuple(
    pattern: p.TuplePattern, known: dict[p.DFPattern, RelayExpr], seed: int, attrs: Mapping[str, object]
) -> Iterator[Built]:
    if pattern.fields is None:
        raise NotMade("no graph is made of a tuple whose fields are open")
    for parts in _each(list(pattern.fields), known, seed):
        made = Tuple([expr for expr, _ in parts])
        if typed(made):
            yield made, {var: array for _, given in parts for var, array in given.items()}


def _build_item(
    pattern: p.TupleGetItemPattern, known: dict[p.DFPattern, RelayExpr], seed: int, attrs: Mapping[str, object]
) -> Iterator[Built]:
    for expr, given in _build(pattern.tuple, known, seed, attrs):
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
