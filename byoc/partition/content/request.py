"""What a plan is asked for, checked and in one piece, so that it can be asked for again with changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from byoc.contract.backend import Backend
from byoc.contract.limits import Limits
from byoc.partition.boundaries import Boundaries
from byoc.partition.cut.layouts import AskedLayouts
from byoc.partition.cut.preference import Preferences
from byoc.partition.options import OBJECTIVES, TIME_LIMIT
from byoc.partition.places import Place
from byoc.relay.transform import CompositeRecord


@dataclass(frozen=True)
class PlanInputs:
    """The policy, the backends in order of preference, what the user says about places, the limits (the user's, else
    the backend's own); for policy ``cost`` what things cost and what is wanted; for ``score`` the ordered wish of
    places (none: each target's own, then the host) and the formula; for ``order`` the priority lists of operators.
    *layouts* are those that the backends ask for, which the module has already.
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

    @property
    def names(self) -> tuple[str, ...]:
        """The targets."""
        return tuple(b.name for b in self.backends)

    @property
    def notes(self) -> tuple[str, ...]:
        """What happened while composites were sought."""
        return (*self.layouts.notes, *dict.fromkeys(map(str, self.record.failed_checks)))
