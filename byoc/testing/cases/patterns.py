"""Cases of patterns: a graph made from each row of a backend's pattern table, each of its alternatives apart.

The graph is what the pattern says, on inputs like the operators' samples; it counts where the pattern matches it and
the backend takes the composite that comes of it. It is compiled as a region, once more through the planner, and once
with larger tensors. Then each operator inside of the pattern is brought into each form that its own samples have
(strides, groups, dilation, axes, layouts), with neighbours that fit: a fused kernel has these to get right too. What is
taken in no layout of the samples is tried in those that the backend claims.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from byoc.contract.backend import PatternEntry
from byoc.contract.checks import pattern_entries
from byoc.contract.support_table import registered_operators, sample_call
from byoc.contract.verdict import Constraint, ConstraintCheck, Reason, judge
from byoc.errors import ByocError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op, Sample
from byoc.relay import transform
from byoc.relay.dataflow_pattern import CallPattern, DFPattern
from byoc.relay.expr import Call, Function, Var
from byoc.relay.traverse import post_order, substitute
from byoc.testing.cases.fitting import Budget, Given, SearchEnded, typed
from byoc.testing.cases.large import LARGE, UNFIT, grown
from byoc.testing.cases.layouts import samples_in_layouts
from byoc.testing.cases.operators import BackendAnswers, is_computed
from byoc.testing.cases.pattern_graphs import Built, Focus, NeverMatches, NotMade, Search, focuses, graphs_of
from byoc.testing.cases.retyped import OTHERS, OWN, is_known, retyped
from byoc.testing.core.case import Case, constant, function_of
from byoc.testing.core.refusals import grouped

PATTERN = "patterns"
PATTERN_SAMPLES = "samples in patterns"
MOST_CANDIDATES = 300  # graphs that are made of one row
MOST_CALLS = 4000  # calls that are tried for these
MOST_FORMS = 8  # different graphs of one row that become cases
MOST_SAMPLES = 60  # samples of its operators that are put through one row
SAMPLE_CANDIDATES = 16  # graphs that are made for one of them
MOST_RETYPED = 60  # graphs of one row that are tried in other floating-point types
SAMPLE_CALLS = 200  # calls that are tried for these


Order = Callable[[Op], Sequence[Sample]]  # the samples of an operator that are tried


@dataclass
class CertifiedRow:
    """A row of the table, and what became of the graphs that were made from it."""

    entry: PatternEntry
    asked: BackendAnswers
    made: int = 0
    matched: int = 0
    refused: Counter[Reason] = field(default_factory=Counter)
    dtype: str | None = None  # the type of the samples' floats in which it is taken, once that is known
    retyped: int = 0  # graphs that were tried in another
    forms: int = 0  # graphs that became cases in all variants
    samples: dict[str, Sequence[Sample]] = field(default_factory=dict)
    turned: dict[str, Sequence[Sample]] = field(default_factory=dict)

    def likely(self, op: Op) -> Sequence[Sample]:
        """The samples of *op* that no constraint about it refuses, asked alone; all where it refuses each."""
        if op.name not in self.samples:
            check = self.entry.asked
            rows = check.constraints if isinstance(check, ConstraintCheck) else ()
            about = [c for c in (*self.asked.backend.constraints, *rows) if op.name in c.asked_about]
            taken = [s for s in op.samples if not _is_refused(op, s, about)] if about else []
            self.samples[op.name] = taken or op.samples
        return self.samples[op.name]

    def in_layouts(self, op: Op) -> Sequence[Sample]:
        """The samples of *op* in the layouts that the backend claims; all where it has none."""
        if op.name not in self.turned:
            self.turned[op.name] = samples_in_layouts(self.asked.backend, op, 0) or op.samples
        return self.turned[op.name]

    def why_none(self) -> str:
        """Why it has no case although a graph of it was matched."""
        reasons = "; ".join(grouped(self.refused, 3))
        why = reasons or "the reference does not compute it"
        return f"matched, and refused because {why}; a model that has it tries it: --model FILE"


def pattern_cases(
    asked: BackendAnswers, seed: int, is_wanted: Callable[[str], bool] = lambda name: True
) -> Iterator[Case]:
    """The cases of every row of the backend's pattern table whose name is wanted.

    Rows that match nothing stand in ``asked.never``, others of which no case is made in ``asked.unmade``.
    """
    for entry in (e for e in pattern_entries(asked.backend) if is_wanted(e.name)):
        row = CertifiedRow(entry, replace(asked, refused=Counter()))
        cases = 0
        why = ""
        try:
            for case in itertools.chain(_forms(row, seed), _samples(row, seed)):
                cases += 1
                yield case
        except NeverMatches as error:
            asked.never[entry.name] = f"the pattern never matches: {error}"
            continue
        except NotMade as error:
            why = str(error)
        asked.refused.update(row.refused)
        if cases or entry.name in asked.raised:
            continue
        if entry.name in asked.not_named:
            asked.never[entry.name] = (
                f"the pattern matches and nothing runs its composite, which is refused: {asked.not_named[entry.name]}; "
                "give it a kernel, or name it among the operators that are taken, or leave the row out"
            )
        elif why or row.matched:
            asked.unmade[entry.name] = why or row.why_none()
        elif row.made:
            asked.never[entry.name] = f"the pattern never matched: {row.made} graphs of its operators were tried"
        else:
            asked.unmade[entry.name] = "no graph of its operators was found whose types fit"


def _is_refused(op: Op, sample: Sample, conditions: Sequence[Constraint]) -> bool:
    """Whether one of *conditions* refuses a call like *sample*; one that cannot be asked is none that is likely."""
    try:
        call = sample_call(op, sample)
    except (ByocError, TypeError, ValueError):
        return True
    return not judge(call, conditions)


def _searched(
    row: CertifiedRow, search: Search, most: int, orders: Sequence[Order], found: Collection[object] = ()
) -> Iterator[Built]:
    """Graphs of a row from the samples that the first of *orders* gives of each operator; where nothing is *found* with
    these, from those of the next.
    """
    for number, order in enumerate(orders):
        same = any(all(order(op) is o(op) for _, op in focuses(row.entry.pattern)) for o in orders[:number])
        if not found and not same:
            fresh = replace(search, budget=Budget(search.budget.left), wanted={}, order=order)
            yield from _typed(row, _bounded(row.entry.pattern, fresh, most))


def _all_samples(op: Op) -> Sequence[Sample]:
    return op.samples


def _forms(row: CertifiedRow, seed: int) -> Iterator[Case]:
    """The graphs of a row, one of each sequence of operators."""
    forms: set[tuple[str, ...]] = set()
    orders = (row.likely, _all_samples, row.in_layouts)
    for expr, given in _searched(row, Search(seed, Budget(MOST_CALLS)), MOST_CANDIDATES, orders, forms):
        form = tuple(n.op.name for n in post_order(expr) if isinstance(n, Call) and isinstance(n.op, Op))
        case = None if form in forms else _case(row, expr, given)
        if case is None:
            continue
        forms.add(form)
        row.forms = len(forms)
        yield from _variants(row, (case, expr, given), row.forms - 1)
        if len(forms) == MOST_FORMS:
            return


def _samples(row: CertifiedRow, seed: int) -> Iterator[Case]:
    """Each operator of a row as in each of its samples, the first of every operator first.

    An operator that is taken in none of them is tried with its samples in other layouts.
    """
    places = focuses(row.entry.pattern)
    taken: set[Op] = set()
    yield from _like_samples(row, seed, [(place, op, op.samples) for place, op in places], taken)
    rest = [(place, op, row.in_layouts(op)) for place, op in places if op not in taken]
    turned = [(place, op, samples) for place, op, samples in rest if samples is not op.samples]
    if not row.forms:
        row.dtype, row.retyped = None, 0  # it may be taken in another type there
    yield from _like_samples(row, seed, turned, taken)


def _like_samples(
    row: CertifiedRow, seed: int, places: Sequence[tuple[CallPattern, Op, Sequence[Sample]]], taken: set[Op]
) -> Iterator[Case]:
    """Each of *places* as in each of its samples; operators that are *taken* in one are added there."""
    numbers = range(max((len(samples) for _, _, samples in places), default=0))
    chosen = [(p, op, samples, k) for k in numbers for p, op, samples in places if k < len(samples)]
    seen: set[object] = set()
    for place, op, samples, k in chosen[:MOST_SAMPLES]:
        search = Search(seed, Budget(SAMPLE_CALLS), Focus(place, op, samples[k]))
        orders = (_all_samples, row.likely) if samples is op.samples else (row.in_layouts,)
        for expr, given in _searched(row, search, SAMPLE_CANDIDATES, orders):
            case = _case(row, expr, given) or _held(row, expr, given)
            if case is None:
                continue
            taken.add(op)
            if not row.forms:
                row.forms = 1
                yield from _variants(row, (case, expr, given), 0)
            elif _form(expr) not in seen:
                layout = "" if samples is op.samples else " in another layout"
                yield replace(case, name=f"{row.entry.name}, {op.name}[{k}]{layout}", kind=PATTERN_SAMPLES)
            seen.add(_form(expr))
            break


def _bounded(pattern: DFPattern, search: Search, most: int) -> Iterator[tuple[RelayExpr, Given]]:
    try:
        yield from itertools.islice(graphs_of(pattern, search), most)
    except SearchEnded:
        return


def _typed(row: CertifiedRow, graphs: Iterator[tuple[RelayExpr, Given]]) -> Iterator[tuple[RelayExpr, Given]]:
    """Each of *graphs*, and, where the row is refused on float32, the same in another floating-point type.

    The first type in which it is taken is kept; after ``MOST_RETYPED`` graphs none is tried any more.
    """
    for expr, given in graphs:
        if row.dtype == OWN or _case(row, expr, given) is not None:
            row.dtype = OWN if row.dtype is None else row.dtype
            yield expr, given
            continue
        for dtype in [row.dtype] if row.dtype else [d for d in OTHERS if is_known(d)]:
            row.retyped += 1
            try:
                other, arrays = retyped(expr, given, dtype)
            except UNFIT:
                continue
            if typed(other) and _case(row, other, arrays) is not None:
                row.dtype = dtype
                yield other, arrays
                break
        else:
            yield expr, given
        if row.dtype is None and row.retyped > MOST_RETYPED:
            row.dtype = OWN


def _form(expr: RelayExpr) -> object:
    """What two graphs have in common that are the same case: operators, attributes, types."""
    calls = (n for n in post_order(expr) if isinstance(n, Call))
    return tuple((n.op, n.attrs, tuple(str(a.checked_type) for a in n.args)) for n in calls)


def _case(row: CertifiedRow, expr: RelayExpr, given: Given) -> Case | None:
    """The composite of *expr* in a function, if the pattern matches it, and the check and the verdict take it."""
    row.made += 1
    if not row.entry.pattern.match(expr):
        return None
    row.matched += 1
    params = [Var(f"x{k}", var.type_annotation) for k, var in enumerate(given)]
    replaced: dict[RelayExpr, RelayExpr] = dict(zip(given, params, strict=True))
    return _merged(row, function_of(params, substitute(expr, replaced)), given)


def _merged(row: CertifiedRow, plain: Function, given: Given) -> Case | None:
    entry, check = row.entry, row.entry.asked
    is_of_constraints = isinstance(check, ConstraintCheck)
    try:
        merge = transform.MergeComposite([(entry.name, entry.pattern, None if is_of_constraints else check)])
        merged = merge(IRModule.from_expr(plain))["main"]
    except Exception as error:  # whatever a vendor's check raises
        row.asked.raised[entry.name] = f"the check of its pattern raises {type(error).__name__}: {error}"
        return None
    assert isinstance(merged, Function)
    main = function_of(merged.params, merged.body)
    found = [n for n in post_order(main.body) if isinstance(n, Call) and _is_composite(n, entry.name)]
    if not found:
        row.refused[Reason("check", "the check of its pattern refuses it")] += 1
        return None
    reasons = [r for call in found if isinstance(check, ConstraintCheck) for r in check.refusals(call)]
    row.refused.update(r for r in reasons if not row.asked.note_failure(r, entry.name))
    if reasons:
        return None
    row.asked.refused.clear()
    taken = row.asked.takes(main, entry.name)
    row.refused.update(row.asked.refused)
    arrays = tuple(given.values())
    if not taken or not is_computed(main, arrays):
        return None
    return Case(entry.name, entry.name, PATTERN, main, (arrays,))


def _is_composite(call: Call, name: str) -> bool:
    return isinstance(call.op, Function) and call.op.attrs.get("Composite") == name


def _held(row: CertifiedRow, expr: RelayExpr, given: Given) -> Case | None:
    """The case of *expr* with all inputs but the first constant."""
    if len(given) < 2:
        return None
    data, *weights = given
    fixed: dict[RelayExpr, RelayExpr] = {var: constant(given[var]) for var in weights}
    held = substitute(expr, fixed)
    return _case(row, held, {data: given[data]}) if typed(held) else None


def _behind_a_constant(row: CertifiedRow, expr: RelayExpr, given: Given) -> Case | None:
    """The case of :func:`_held` behind an operator on the data and a constant, which a region then has beside those of
    the composite; None where the backend takes no such operator.
    """
    data, array = next(iter(given.items()))
    answers = BackendAnswers(row.asked.backend)
    pointwise = (op for op in registered_operators() if op.traits.is_pointwise and op.attrs_type is None)
    for op in (op for op in pointwise if len(op.input_names) == 2):
        call = Call(op, [data, constant(np.flip(array).copy())])
        if typed(call) and call.checked_type == data.checked_type and answers.takes_call(call, op.name):
            fixed: dict[RelayExpr, RelayExpr] = {var: constant(given[var]) for var in given if var is not data}
            held = substitute(expr, {**fixed, data: call})
            return _case(row, held, {data: array}) if typed(held) else None
    return None


def _variants(row: CertifiedRow, first: tuple[Case, RelayExpr, Given], number: int) -> Iterator[Case]:
    case, expr, given = first
    name = f"{row.entry.name}[{number}]"
    yield replace(case, name=name)
    held = _held(row, expr, given)
    if held is not None:
        yield replace(held, name=f"{name}, constant inputs")
    behind = _behind_a_constant(row, expr, given)
    if behind is not None:
        yield replace(behind, name=f"{name}, constant inputs, behind an operator with a constant")
    params = [Var(f"x{k}", var.type_annotation) for k, var in enumerate(given)]
    replaced: dict[RelayExpr, RelayExpr] = dict(zip(given, params, strict=True))
    plain = function_of(params, substitute(expr, replaced))
    yield replace(case, name=f"{name}, planned", function=plain, whole=True)
    larger = grown(plain, tuple(given.values()))
    if larger is not None and is_computed(*larger):
        function, arrays = larger
        large = _merged(row, function, dict(zip(function.params, arrays, strict=True)))
        if large is not None:
            yield replace(large, name=f"{name}, large", kind=LARGE)
