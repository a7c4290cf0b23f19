"""The casts that chosen places ask for, written into the module that a plan is about.

A place with a precision or a layout of its own computes in these; what it reads and gives is brought there by the
fewest casts (``places/relay_casts.py``). They are calls like others: the plan has a decision for each, numbered with
the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from byoc.contract.backend import Backend
from byoc.contract.registration import BACKENDS
from byoc.contract.verdict import Reason, Verdict, callee_name
from byoc.ir.module import IRModule
from byoc.ir.span import span_names
from byoc.partition.calls import Decision, calls_of, functions_of
from byoc.partition.cut.decide import judged
from byoc.partition.place import IMAGES
from byoc.partition.places import DataLayout, Place, Precision
from byoc.partition.places.relay_casts import insert_relay_casts
from byoc.relay.expr import Call
from byoc.relay.traverse import children, post_order

CAST = "cast"
HOME_PLACE = "host/any/any"
_AS_IT_COMES = ((Precision.ANY, Precision.FLOAT), (DataLayout.ANY, DataLayout.NCHW))


def asks_for_casts(places: Sequence[str]) -> bool:
    """True when one of *places* computes in something other than a model of float32 and NCHW has."""
    precisions, layouts = _AS_IT_COMES
    return any(p.precision not in precisions or p.layout not in layouts for p in map(_at_border, set(places)))


def _at_border(place: str) -> Place:
    """*place* as tensors cross its border: images, and what a backend brings its regions to, are inside of these."""
    found = Place.parse(place)
    if found.layout in IMAGES:
        found = replace(found, layout=DataLayout.NCHW)
    backend = BACKENDS.get(found.target)
    if backend is not None and str(found.precision) in backend.precisions_inside:
        found = replace(found, precision=Precision.FLOAT)
    return found


def with_casts(mod: IRModule, places: Sequence[str]) -> tuple[IRModule, list[int | None]]:
    """*mod*, whose call number n is at ``places[n]``, with its casts; and for each call of the result its number in
    *mod*, None for a cast. Raises PartitionError for a place that a call cannot be computed at.
    """
    result, numbers, count = mod.shallow_copy(), [], 0
    for var, func in functions_of(mod):
        calls = list(calls_of(func))
        number = {call: count + k for k, call in enumerate(calls)}
        made = insert_relay_casts(func, {call: _at_border(places[number[call]]) for call in calls})
        result[var] = made.function
        numbers += [None if call not in made.origin else number[made.origin[call]] for call in calls_of(made.function)]
        count += len(calls)
    return result, numbers


def cast_decisions(
    mod: IRModule, numbers: Sequence[int | None], decisions: Sequence[Decision], backends: Sequence[Backend]
) -> list[Decision]:
    """The decisions about the calls of *mod*, which has its casts: those of *decisions* by *numbers*; a cast goes to
    the target of what reads it, or of what it reads, where that takes it.
    """
    calls = [call for _, func in functions_of(mod) for call in calls_of(func)]
    decided = {call: decisions[n] for call, n in zip(calls, numbers, strict=True) if n is not None}
    by_name = {b.name: b for b in backends}
    readers = _readers(mod)
    return [decided[call] if call in decided else _cast(call, _near(call, readers, decided), by_name) for call in calls]


def _readers(mod: IRModule) -> dict[Call, list[Call]]:
    found: dict[Call, list[Call]] = {}
    for _, func in functions_of(mod):
        for node in post_order(func):
            if isinstance(node, Call):
                for child in children(node):
                    if isinstance(child, Call):
                        found.setdefault(child, []).append(node)
    return found


def _near(call: Call, readers: Mapping[Call, Sequence[Call]], decided: Mapping[Call, Decision]) -> list[str]:
    """The targets around a cast: of what reads it, through other casts too, then of what it reads."""
    found: dict[str, None] = {}
    steps: tuple[Callable[[Call], Sequence[Call]], ...] = (
        lambda c: readers.get(c, ()),
        lambda c: [a for a in c.args if isinstance(a, Call)],
    )
    for step in steps:
        pending, seen = [call], {call}
        while pending:
            for other in step(pending.pop(0)):
                if other in decided:
                    if decided[other].target is not None:
                        found[str(decided[other].target)] = None
                elif other not in seen:
                    seen.add(other)
                    pending.append(other)
    return list(found)


def _cast(call: Call, near: Sequence[str], backends: Mapping[str, Backend]) -> Decision:
    operator, nodes = callee_name(call), span_names(call.span)
    asked: list[tuple[str, Verdict]] = []
    for target in near:
        verdict = judged(backends[target], call)
        asked.append((target, verdict))
        if verdict:
            return Decision(operator, nodes, target, tuple(asked))
    why = Reason(CAST, "a cast between two places, which neither takes")
    return Decision(operator, nodes, None, tuple(asked) or (("host", Verdict(False, operator, nodes, (why,))),))


def in_regions(mod: IRModule, decisions: Sequence[Decision]) -> list[Decision]:
    """*decisions*, whose regions were planned without the casts of *mod*, with the casts in regions or on the host.

    A cast joins the region of all that reads it, else of what it reads where nothing there reads it: that makes no
    region wait for another which did not before.
    """
    calls = [call for _, func in functions_of(mod) for call in calls_of(func)]
    region = {call: d.region for call, d in zip(calls, decisions, strict=True)}
    number = {call: k for k, call in enumerate(calls)}
    found = list(decisions)
    readers = _readers(mod)
    target_of = {d.region: d.target for d in decisions if d.region is not None}
    for order, near in ((reversed(calls), lambda c: readers.get(c, ())), (iter(calls), lambda c: c.args)):
        for call in order:
            decision = found[number[call]]
            if decision.target is None or region[call] is not None:
                continue
            around = {region.get(c) for c in near(call)}
            same = around.pop() if len(around) == 1 else None
            if same is not None and target_of[same] == decision.target:
                region[call] = same
                found[number[call]] = replace(decision, region=same)
    return [_home(d) if d.target is not None and d.region is None else d for d in found]


def _home(decision: Decision) -> Decision:
    why = Reason(CAST, "a cast that stands in no region stays on the host")
    no = Verdict(False, decision.operator, decision.nodes, (why,))
    verdicts = tuple((t, no if t == decision.target else v) for t, v in decision.verdicts)
    return replace(decision, target=None, verdicts=verdicts)
