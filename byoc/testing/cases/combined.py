"""Cases of several operators in one region: fused with what follows, two outputs, tuples in and out; an operator behind
itself with other constants, and one that reads a value twice.

Each begins with the first sample of an operator that the backend takes; what follows is another that it takes and that
fits behind it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op, get_op
from byoc.ir.types import TensorType, TupleType
from byoc.relay.expr import Call, Tuple, TupleGetItem, Var
from byoc.relay.op import concatenate
from byoc.relay.traverse import substitute
from byoc.testing.cases.fitting import Given, calls_on, closed_calls, typed
from byoc.testing.cases.operators import SAMPLE, BackendAnswers, is_computed
from byoc.testing.core.case import Case, constant, function_of
from byoc.testing.core.reference import outputs_of

COMBINED = "combinations"
MOST_TRIED = 40  # operators that are tried behind one


def combined_cases(asked: BackendAnswers, alone: Sequence[Case]) -> Iterator[Case]:
    """The combinations of each operator of which a sample is among *alone*."""
    firsts: dict[str, Case] = {}
    for case in alone:
        if case.kind == SAMPLE and isinstance(case.function.body, Call):
            firsts.setdefault(case.operator, case)
    ops = (get_op(name) for name in firsts)
    followers = sorted(ops, key=lambda op: (not op.traits.is_pointwise, len(op.input_names)))
    for case in firsts.values():
        yield from _of(asked, case, followers)
        yield from _read_twice(asked, case)
        yield from _behind_itself(asked, case)
    signed = list(itertools.islice(filter(_has_both_signs, firsts.values()), MOST_TRIED))
    for op in followers:
        if op.traits.is_pointwise and len(op.input_names) == 1:
            yield from _read_beside(asked, op, signed)


def _read_beside(asked: BackendAnswers, op: Op, cases: Sequence[Case]) -> Iterator[Case]:
    """The case in which the result of another of *cases* is an output and what *op* reads: work in place is seen."""
    for case in cases:
        call = case.function.body
        behind = next((made for made, _ in closed_calls(op, [call]) if asked.takes_call(made, op.name)), None)
        if case.operator == op.name or behind is None:
            continue
        made = list(_made(asked, case, f"read by {op.name} too", Tuple([behind, call]), {}))
        if made:
            yield replace(made[0], operator=op.name)
            return


def _read_twice(asked: BackendAnswers, case: Case) -> Iterator[Case]:
    """The operator of *case* on one value for two inputs, which is one parameter of the region."""
    call, params = case.function.body, case.function.params
    if isinstance(call, Call) and len(params) == 2 and list(call.args) == list(params):
        for chosen, given in zip(params, case.feeds[0], strict=True):
            body = Call(call.op, [chosen, chosen], call.attrs)
            if typed(body):
                function = function_of([Var("x0", chosen.type_annotation)], body)
                function = function_of(function.params, substitute(body, {chosen: function.params[0]}))
                name = f"{case.name} of a value and itself"
                if asked.takes(function, name) and is_computed(function, (given,)):
                    yield Case(name, case.operator, COMBINED, function, ((given,),))
                    return


def _behind_itself(asked: BackendAnswers, case: Case) -> Iterator[Case]:
    """The operator of *case* twice, each with constants of its own, of the same shapes where those fit."""
    call, params = case.function.body, case.function.params
    if not isinstance(call, Call) or len(params) < 2 or list(call.args) != list(params):
        return
    held: dict[RelayExpr, RelayExpr] = {p: constant(a) for p, a in zip(params[1:], case.feeds[0][1:], strict=True)}
    places: list[RelayExpr | None] = [call, *(None for _ in params[1:])]
    assert isinstance(call.op, Op)
    for behind, given in itertools.islice(calls_on(call.op, places, 3), 4):
        others: dict[RelayExpr, RelayExpr] = {var: constant(array) for var, array in given.items()}
        first = Var("x0", params[0].type_annotation)
        function = function_of([first], substitute(behind, {**held, **others, params[0]: first}))
        name = f"{case.name} behind itself, constant inputs"
        if asked.takes(function, name) and is_computed(function, case.feeds[0][:1]):
            yield Case(name, case.operator, COMBINED, function, (case.feeds[0][:1],))
            return


def _has_both_signs(case: Case) -> bool:
    """Whether the result is one tensor with numbers below 0 and above."""
    if not isinstance(case.function.body.checked_type, TensorType):
        return False
    try:
        found = outputs_of(case.function, case.feeds[0], False)[0]
        return bool((found < 0).any() and (found > 0).any())
    except Exception:  # kernels raise what they please
        return False


def _of(asked: BackendAnswers, case: Case, followers: Sequence[Op]) -> Iterator[Case]:
    call = case.function.body
    if isinstance(call.checked_type, TupleType):
        for index in dict.fromkeys((0, len(call.checked_type.fields) - 1)):
            yield from _made(asked, case, f"item {index}", TupleGetItem(call, index), {})
        return
    found = _following(asked, call, followers)
    if found is None:
        return
    behind, given = found
    name = behind.op.name if isinstance(behind.op, Op) else "function"
    yield from _made(asked, case, f"then {name}", behind, given)
    yield from _made(asked, case, f"and {name}, two outputs", Tuple([call, behind]), given)
    yield from _made(asked, case, f"{name} first, two outputs", Tuple([behind, call]), given)
    yield from _made(asked, case, "joined with itself", concatenate([call, call], axis=0), {})


def _following(asked: BackendAnswers, call: RelayExpr, followers: Sequence[Op]) -> tuple[Call, Given] | None:
    """A call behind *call* that is taken, of the first operators that are tried."""
    if not isinstance(call.checked_type, TensorType):
        return None
    for op in itertools.islice((f for f in followers if f.input_names), MOST_TRIED):
        if any(isinstance(item, list) for sample in op.samples[:1] for item in sample.inputs):
            continue
        places: list[RelayExpr | None] = [call, *(None for _ in op.input_names[1:])]
        made = calls_on(op, places, 3) if len(places) > 1 else closed_calls(op, [call])
        for behind, given in itertools.islice(made, 4):
            if asked.takes_call(behind, op.name):
                return behind, given
    return None


def _made(asked: BackendAnswers, case: Case, name: str, body: RelayExpr, given: Given) -> Iterator[Case]:
    """The case of *body* over the inputs of *case* and those that are *given*, if it is taken and computed."""
    if not typed(body):
        return
    params = [Var(f"y{k}", var.type_annotation) for k, var in enumerate(given)]
    replaced: dict[RelayExpr, RelayExpr] = dict(zip(given, params, strict=True))
    function = function_of([*case.function.params, *params], substitute(body, replaced))
    arrays = (*case.feeds[0], *given.values())
    if asked.takes(function, f"{case.name} {name}") and is_computed(function, arrays):
        yield Case(f"{case.name} {name}", case.operator, COMBINED, function, (arrays,))
