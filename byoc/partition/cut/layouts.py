"""Layouts that backends ask for, written into a module before it is planned.

A backend asks for channels innermost where every place of its says NHWC, or where a constraint that names a layout
refuses a call as it is and not in its channels-last form. What it then takes is computed in that form, whatever the
policy; between it and the rest stand the fewest layout transforms (``places/relay_casts.py``), those that undo each
other are left out, and weights are turned once, now. What nobody takes follows its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from byoc.contract.backend import Backend
from byoc.errors import PartitionError
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import tensor_types
from byoc.partition.boundaries import Boundaries, BoundaryView
from byoc.partition.calls import calls_of, functions_of
from byoc.partition.cut.decide import judged
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Function
from byoc.relay.transform.cut.merge_composite import CompositeRecord
from byoc.relay.transform.layout.forms import channels_last_form

LAST, AS_GIVEN, EITHER = "host/any/NHWC", "host/any/NCHW", "host/any/any"
AXES = 4  # of images


@dataclass(frozen=True)
class AskedLayouts:
    """For each call of a module the place whose layout it has, none where nothing is asked for; what went wrong; the
    backends *by* which a layout is asked for; and the numbers of the calls that they take *turned*, and not otherwise.
    """

    places: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    turned: frozenset[int] = frozenset()


def asked_layouts(
    mod: IRModule, backends: Sequence[Backend], boundaries: Boundaries, by_places: bool = False
) -> AskedLayouts:
    """The layouts that *backends*, in their order, ask for in the typed *mod*: the first that takes a call decides.

    *by_places*: the policy chooses among places itself, so that only those that are settled before it are asked.
    """
    if not backends:
        return AskedLayouts()
    from byoc.partition.cut.casting import with_casts
    from byoc.partition.places.score import wants_channels_last

    view = boundaries.on(mod)
    calls = [call for _, func in functions_of(mod) for call in calls_of(func)]
    might = [b for b in backends if _might_ask(b, by_places)]
    turnable = {n for n, call in enumerate(calls) if _is_turnable(call)} if might else set()
    asking = [b for b in might if turnable and (wants_channels_last(b) or _refused_by_layout(b, calls, turnable))]
    if not asking:
        return AskedLayouts()
    try:
        trial, numbers = with_casts(mod, [LAST if n in turnable else AS_GIVEN for n in range(len(calls))])
    except PartitionError as error:
        names = ", ".join(b.name for b in asking)
        return AskedLayouts((), (f"{names} asks for layout NHWC and is given the model's: {error}",))
    chosen: dict[int, str] = {}
    turned: set[int] = set()
    for backend in backends:
        found = dict.fromkeys(_accepted(mod, backend, view), AS_GIVEN)
        if backend in asking:
            in_trial = [numbers[n] for n in _accepted(trial, backend, boundaries.on(trial))]
            last = {n for n in in_trial if n is not None} & turnable
            if not wants_channels_last(backend):  # what has no layout of its own is taken in either
                found.update(_followers(calls, last, set(found)))
                last -= set(found)
            found.update(dict.fromkeys(sorted(last), LAST))
            turned |= last - chosen.keys()
        for number, place in found.items():
            chosen.setdefault(number, place)
    if LAST not in chosen.values():
        return AskedLayouts()
    places = tuple(chosen.get(n, EITHER) for n in range(len(calls)))
    return AskedLayouts(places, by=tuple(b.name for b in asking), turned=frozenset(turned))


def _is_turnable(call: Call) -> bool:
    """Whether *call* has a channels-last form over images that its layout does not have already."""
    if not isinstance(call.op, Op) or all(t.ndim != AXES for t in tensor_types(call.checked_type)):
        return False
    form = channels_last_form(call)
    if form is None or form.is_nothing or form.mixes:
        return False
    return max(len(order) for order in form.outputs) == AXES


def _names_layout(call: Call) -> bool:
    return any("layout" in name for name in getattr(type(call.attrs), "__dataclass_fields__", ()))


def _followers(calls: Sequence[Call], last: set[int], native: set[int]) -> dict[int, str]:
    """The places of those of *native* that are also in *last* and have no layout of their own: that of what they read,
    where it is turned, else either.
    """
    turned = {calls[n] for n in last - native}
    found: dict[int, str] = {}
    for n in sorted(last & native):
        if _names_layout(calls[n]):
            continue
        found[n] = LAST if any(arg in turned for arg in calls[n].args) else EITHER
        if found[n] == LAST:
            turned.add(calls[n])
    return found


def _might_ask(backend: Backend, by_places: bool) -> bool:
    """Whether *backend* asks for channels innermost by its places, or may do so by a refusal."""
    from byoc.partition.places.score import is_settled, wants_channels_last

    if wants_channels_last(backend):
        return is_settled(backend) or not by_places
    if type(backend).supports is not Backend.supports:
        return True
    return any(_speaks_of_layout(condition.code, condition.text) for condition in backend.constraints)


def _speaks_of_layout(code: str, text: str) -> bool:
    words = f"{code} {text}".lower()
    return "layout" in words or "nhwc" in words


def _refused_by_layout(backend: Backend, calls: Sequence[Call], turnable: set[int]) -> bool:
    """Whether *backend* refuses a call for a reason that names a layout."""
    verdicts = (judged(backend, calls[n]) for n in sorted(turnable) if _names_layout(calls[n]))
    return any(_speaks_of_layout(reason.code, reason.text) for verdict in verdicts for reason in verdict.reasons)


def _accepted(mod: IRModule, backend: Backend, view: BoundaryView) -> list[int]:
    """The numbers of the calls that *backend* takes, alone or in a match of its patterns."""
    from byoc.partition.cut.matches import matches_of

    found: dict[int, None] = {}
    count = 0
    for name, func, calls in _functions(mod):
        allowed = [view.reason(backend.name, call) is None for call in calls]
        for number, call in enumerate(calls):
            if allowed[number] and judged(backend, call):
                found[count + number] = None
        for match in matches_of(name, func, [backend], CompositeRecord()):
            if all(allowed[n] for n in match.numbers) and _takes(backend, match.call):
                found.update((count + n, None) for n in match.numbers)
        count += len(calls)
    return list(found)


def _functions(mod: IRModule) -> Iterator[tuple[str, Function, list[Call]]]:
    for var, func in functions_of(mod):
        yield var.name_hint, func, list(calls_of(func))


def _takes(backend: Backend, composite: Call) -> bool:
    infer_expr(composite)
    return bool(judged(backend, composite))
