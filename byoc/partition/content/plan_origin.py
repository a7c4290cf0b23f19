"""What a plan is asked for, and what else it could be: pinned, edited, under other limits, without a backend.

A plan that was read from a file has no origin; :meth:`Plan.on` gives it one with its module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from byoc.contract.backend import Backend, PatternEntry
from byoc.contract.limits import Limits
from byoc.contract.verdict import Reason, Verdict, asked, refuse
from byoc.errors import PartitionError
from byoc.ir.module import IRModule
from byoc.partition.boundaries import FORCE, Boundaries, PlacementRule
from byoc.partition.content.cut import PlannedCut
from byoc.partition.cut.layouts import AskedLayouts
from byoc.partition.cut.preference import Preferences
from byoc.partition.options import OBJECTIVES, TIME_LIMIT
from byoc.partition.places import Place
from byoc.relay.expr import Call
from byoc.relay.transform import CompositeRecord

if TYPE_CHECKING:
    from byoc.partition.cut.matches import TableMatches


@dataclass(frozen=True)
class PlanInputs:
    """The policy, the backends in order of preference, what the user says about places, the limits (the user's, else
    the backend's own); for policy ``cost`` what things cost and what is wanted; for ``score`` the ordered list of
    places (none: each target's own, then the host) and the formula; for ``order`` the priority lists of operators.
    *layouts* are those that the backends ask for, which the module has already; *found* keeps, while one plan is made,
    what its patterns match.
    """

    policy: str
    backends: tuple[Backend, ...]
    boundaries: Boundaries
    limits: Mapping[str, Limits]
    mod_name: str = "default"
    costs: object = "auto"
    objective: str = OBJECTIVES[0]
    time_limit: float = TIME_LIMIT
    valid_places: tuple[Place, ...] = ()
    formula: str = "code"
    prefer: Preferences = Preferences()
    layouts: AskedLayouts = AskedLayouts()
    record: CompositeRecord = field(default_factory=CompositeRecord, compare=False)
    found: TableMatches | None = field(default=None, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The targets."""
        return tuple(b.name for b in self.backends)

    @property
    def notes(self) -> tuple[str, ...]:
        """What happened while composites were sought."""
        return (*self.layouts.notes, *dict.fromkeys(map(str, self.record.failed_checks)))


Made = TypeVar("Made", bound=PlannedCut)  # what *remake* makes: a Plan
Kept = Mapping[tuple[str, int], str]  # function and number of an operator -> its target, or ``host``


@dataclass(frozen=True)
class PlanOrigin(Generic[Made]):
    """The module, with types, and the request that a plan was made from; *remake* makes another by its policy.

    *placed* says where the operators went, where the policy chose among all matches.
    """

    mod: IRModule
    request: PlanInputs
    remake: Callable[[IRModule, PlanInputs, Kept], Made]
    placed: Kept

    def pinned(self, places: Mapping[str, str]) -> Made:
        """The best plan with the named operators at *places* (targets, or ``host``)."""
        return self.remake(self.mod, self._with_forced("pin", places), {})

    def edited(self, places: Mapping[str, str]) -> Made:
        """The plan with the named operators at *places* and all others where they are; composites that hold one of the
        named are taken apart.
        """
        return self.remake(self.mod, self._with_forced("edit", places), self.placed)

    def _with_forced(self, origin: str, places: Mapping[str, str]) -> PlanInputs:
        kept = tuple(r for r in self.request.boundaries.rules if not (r.kind == FORCE and r.name in places))
        rules = tuple(PlacementRule(FORCE, name, place, origin=origin) for name, place in places.items())
        return replace(self.request, boundaries=Boundaries.of(self.request.names, lines=(*kept, *rules)))

    def limited(self, changes: Mapping[str, Any]) -> Made:
        """The best plan with *changes* to the limits of every backend."""
        limits = {b.name: replace(self.request.limits.get(b.name, b.limits), **changes) for b in self.request.backends}
        return self.remake(self.mod, replace(self.request, limits=limits), {})

    def without(self, gone: Mapping[str, Reason]) -> Made:
        """The best plan without the targets *gone*: what they would take gives the reason as its verdict."""
        backends = tuple(_Gone(b, gone[b.name]) if b.name in gone else b for b in self.request.backends)
        return self.remake(self.mod, replace(self.request, backends=backends), {})


class _Gone(Backend):
    """A backend that takes nothing any more, for one reason."""

    def __init__(self, backend: Backend, reason: Reason):
        self.name, self.limits, self.devices = backend.name, backend.limits, backend.devices
        self._backend, self._reason = backend, reason

    def patterns(self) -> Sequence[PatternEntry]:
        return self._backend.patterns()

    def supports(self, call: Call) -> Verdict:
        own = asked(self._backend.supports, call, self.name)
        return own if not own else refuse(call, self._reason.code, self._reason.text, self._reason.actual)


LIMIT_NAMES = tuple(Limits.__dataclass_fields__)


@dataclass(frozen=True)
class Sweep(Generic[Made]):
    """Plans under each value of one limit; ``str()`` is a table."""

    name: str
    values: tuple[object, ...]
    plans: tuple[Made, ...]

    def __iter__(self) -> Iterator[tuple[object, Made]]:
        return iter(zip(self.values, self.plans, strict=True))

    def __str__(self) -> str:
        from byoc.partition.content.explanation import seconds

        rows = [(self.name, "regions", "offloaded", "estimate")]
        for value, plan in zip(self.values, self.plans, strict=True):
            estimate = "-" if plan.total is None else seconds(plan.total.seconds)
            offloaded = sum(d.target is not None for d in plan.decisions)
            rows.append((str(value), str(len(plan.regions)), f"{offloaded} of {len(plan.decisions)}", estimate))
        widths = [max(len(r[k]) for r in rows) for k in range(len(rows[0]))]
        return "\n".join("  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in rows)


def sweep(origin: PlanOrigin[Made], limits: Mapping[str, Sequence[object]]) -> Sweep[Made]:
    """A plan for each value of the one limit in *limits*. Raises PartitionError for none, several, an unknown one."""
    if len(limits) != 1:
        raise PartitionError(
            f"sweep takes the values of one limit, got {', '.join(limits) or 'none'}; one of {', '.join(LIMIT_NAMES)}"
        )
    ((name, values),) = limits.items()
    if name not in LIMIT_NAMES:
        raise PartitionError(f"sweep: no limit is called {name!r}; one of {', '.join(LIMIT_NAMES)}")
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise PartitionError(f"sweep takes a list of values: sweep({name}=[{values!r}])")
    values = tuple(values)
    return Sweep(name, values, tuple(origin.limited({name: value}) for value in values))
