"""Policy ``score``: a place for each unit of a plan, by kernels, an ordered list of places and Paddle Lite's grade.

A unit is what a plan places: an operator or a composite, with the verdict of each target that was asked. A target that
accepts a unit has a kernel for it at each of its backend's ``places()``, beside those that are registered for the
operator by name; one that refuses has none, and the reasons of its verdict are those of the report. The host has a
kernel for everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from byoc.contract.backend import Backend
from byoc.contract.registration import get_backend
from byoc.contract.verdict import Verdict, sentence_of
from byoc.errors import PartitionError
from byoc.partition.place import ANY, HOST, DataLayout, Place, precision_of
from byoc.partition.places.grade import Formula, KernelArgument, KernelRequest, formula_of
from byoc.partition.places.kernel import KERNELS, Kernel, KernelRegistry
from byoc.partition.places.libraries import places_of
from byoc.partition.places.pick import Explanation, pick_kernel, valid_places


@dataclass(frozen=True)
class PlacementUnit:
    """An operator or composite to be placed: what each target said of it, and the dtypes of its tensors.

    *constants* are the numbers of the inputs that are weights. *kernels* are the declared kernels that run and fit it,
    by the backend that runs them.
    """

    operator: str
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    constants: frozenset[int] = frozenset()
    nodes: tuple[str, ...] = ()
    kernels: Mapping[str, tuple[Kernel, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Placed:
    """Where a unit goes and why: every row of the score, and a sentence for each target passed over."""

    place: Place
    kernel: Kernel
    explanation: Explanation
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return str(replace(self.explanation, reasons=self.reasons))


def backend_places(target: str) -> tuple[Place, ...]:
    """The places of a backend's kernels, as it says them. Raises as :func:`places_of`."""
    if target == HOST:
        return (Place(HOST, ANY, ANY),)
    backend = get_backend(target)
    found = places_of(backend)
    return tuple(dict.fromkeys(map(as_it_comes, found))) if is_settled(backend) else found


def wants_channels_last(backend: Backend) -> bool:
    """Whether every place of *backend* says NHWC."""
    return {place.layout for place in places_of(backend)} == {DataLayout.NHWC}


def is_settled(backend: Backend) -> bool:
    """Whether the module has the integers, and the layout, of *backend* before places are chosen.

    So it is for backends of integers, and for patterns over channels innermost, since a composite has no other form.
    """
    return backend.quantized is not None or (bool(backend.patterns()) and wants_channels_last(backend))


def as_it_comes(place: Place) -> Place:
    """*place*, which takes numbers and layouts as they are."""
    return Place(place.target, ANY, ANY, place.device)


def places_for(target: str, wish: Sequence[Place]) -> tuple[Place, ...]:
    """The places of a backend's kernels that may serve *wish*.

    A backend that names precisions or layouts beside ``any/any`` promises these where they are requested; what comes
    as it is serves a request for ``any/any`` alone.
    """
    found = backend_places(target)
    vague = tuple(p for p in found if p == as_it_comes(p))
    if not vague or len(vague) == len(found):
        return found
    exact = tuple(p for p in found if p not in vague)
    mine = [p for p in wish if p.target == target]
    if not any(p == as_it_comes(p) for p in mine):
        return exact
    return (*vague, *exact) if mine[0] == as_it_comes(mine[0]) else (*exact, *vague)


def derived_kernels(
    unit: PlacementUnit, wish: Sequence[Place], kernels: KernelRegistry = KERNELS
) -> tuple[Kernel, ...]:
    """The kernels of *unit*: those that are registered for its operator, and one at each place of each target of *wish*
    that accepts it. A registered kernel stands for the derived one of its place; a target that refuses has none.
    """
    targets = tuple(p.target for p in wish)
    refused = {t for t, verdict in unit.verdicts.items() if not verdict}
    found = [k for k in kernels.of(unit.operator) if k.place.target not in refused and k.run is None]
    found = [*(k for own in unit.kernels.values() for k in own), *found]
    taken = {k.place for k in found}
    for target in dict.fromkeys(targets):
        if target in unit.kernels or (target != HOST and not unit.verdicts.get(target)):
            continue
        for place in places_for(target, wish):
            if place not in taken:
                where = f"backend {target}" if target != HOST else "the host"
                found.append(Kernel(unit.operator, place, where=where))
    return tuple(replace(k, order=n) for n, k in enumerate(found))


def granted(
    places: Sequence[Place], units: Sequence[PlacementUnit], kernels: KernelRegistry = KERNELS
) -> tuple[tuple[Place, ...], tuple[str, ...]]:
    """Those of *places* that somebody serves, whatever the operator, and why each of the others is passed over.

    Raises PartitionError for a place of a target that is not asked for, and where none is left.
    """
    asked = {t for unit in units for t in unit.verdicts} | {HOST}
    served = [k.place for k in kernels]
    for target in dict.fromkeys(p.target for p in places):
        if target in asked:
            served.extend(backend_places(target))
    exact = [p for p in served if p != as_it_comes(p) or not any(q != p for q in served if q.target == p.target)]
    kept = []
    reasons = []
    for place in places:
        if any(_serves(has, place) for has in (served if place == as_it_comes(place) else exact)):
            kept.append(place)
        else:
            reasons.append(_not_served(place, served, asked))
    if not kept:
        raise PartitionError("; ".join(reasons))
    return tuple(kept), tuple(reasons)


def _not_served(place: Place, served: Sequence[Place], asked: Collection[str]) -> str:
    """Why *place* is passed over. Raises PartitionError where its target has no kernels here."""
    mine = [p for p in served if p.target == place.target]
    if place.target not in asked or not mine:
        there = {*served, *(p for target in asked for p in backend_places(target))}
        known = ", ".join(map(str, sorted(there)))
        raise PartitionError(f"nobody has a kernel for place {place}; places with kernels: {known}")
    backend = get_backend(place.target) if place.target != HOST else None
    why = backend.why_not_at(str(place)) if backend is not None else None
    known = ", ".join(map(str, dict.fromkeys(mine)))
    return f"nobody has a kernel for place {place}{f': {why}' if why else ''}; places of {place.target}: {known}"


def _serves(has: Place, place: Place) -> bool:
    return all(
        a == b or ANY in (a, b)
        for a, b in ((has.target, place.target), (has.precision, place.precision), (has.layout, place.layout))
    )


def score_places(
    units: Sequence[PlacementUnit],
    places: Iterable[Place | str],
    kernels: KernelRegistry = KERNELS,
    formula: str | Formula = "code",
    *,
    gate: bool = True,
    first_wish: bool = True,
) -> list[Placed]:
    """A place for each of *units*, under the ordered *places*.

    A place of a target that has kernels, but none there, is passed over, and every unit's explanation says so.

    Raises PartitionError for a list that is empty, names a place twice or one of a target that nobody serves, and for a
    unit without a kernel on the target of any place, naming it.
    """
    rule = formula_of(formula)
    wish, refused = granted(valid_places(places), units, kernels)
    known: dict[_Key, Explanation] = {}  # units that differ in their names and reasons alone
    placed = []
    for unit in units:
        key = _key(unit)
        if key not in known:
            known[key] = _explained(unit, wish, kernels, rule, gate, first_wish)
        chosen = replace(known[key], request=replace(known[key].request, label=", ".join(unit.nodes)))
        reasons = (*refused, *(_because(text, unit) for text in chosen.reasons))
        placed.append(Placed(chosen.place, chosen.kernel, chosen, reasons))
    return placed


_Key = tuple[str, tuple[str, ...], tuple[str, ...], frozenset[int], tuple[tuple[str, bool], ...], tuple[Kernel, ...]]


def _key(unit: PlacementUnit) -> _Key:
    verdicts = tuple((t, bool(v)) for t, v in unit.verdicts.items())
    declared = tuple(k for own in unit.kernels.values() for k in own)
    return (unit.operator, unit.inputs, unit.outputs, unit.constants, verdicts, declared)


def _explained(
    unit: PlacementUnit, wish: Sequence[Place], kernels: KernelRegistry, rule: Formula, gate: bool, first_wish: bool
) -> Explanation:
    targets = tuple(dict.fromkeys(p.target for p in wish))
    found = derived_kernels(unit, wish, kernels)
    try:
        return pick_kernel(_request(unit, found), found, wish, rule, gate=gate, first_wish=first_wish)
    except PartitionError as error:
        why = "; ".join(_because(f"no {t} kernel for {unit.operator}", unit) for t in targets)
        raise PartitionError(f"{error} ({why})") from error


def _request(unit: PlacementUnit, kernels: Sequence[Kernel]) -> KernelRequest:
    """The unit's tensors under the names that registered kernels gave to their inputs, else under their numbers."""
    names = next((list(k.inputs) for k in kernels if len(k.inputs) == len(unit.inputs) > 0), None)
    outputs = next((list(k.outputs) for k in kernels if len(k.outputs) == len(unit.outputs) > 0), None)
    return KernelRequest(
        unit.operator,
        tuple(
            KernelArgument(names[n] if names else f"in{n}", precision_of(dtype), n in unit.constants)
            for n, dtype in enumerate(unit.inputs)
        ),
        tuple(
            KernelArgument(outputs[n] if outputs else f"out{n}", precision_of(dtype))
            for n, dtype in enumerate(unit.outputs)
        ),
        label=", ".join(unit.nodes),
    )


def _because(text: str, unit: PlacementUnit) -> str:
    """``no opencl kernel for nn.conv2d``, and why where the target's verdict says it."""
    target = text.split()[1]
    verdict = unit.verdicts.get(target)
    why = sentence_of(verdict.reasons) if verdict is not None and not verdict else ""
    return f"{text}: {why}" if why else text
