"""The Plan: a cut of a module (``content/cut.py``), and what users do with it.

It stands between partitioning and compiling: printed, drawn, saved as JSON, applied to the module that it was made for,
and made again with changes. Invariant: it holds decisions and numbers, no expressions, but for what it was made from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from byoc.contract.verdict import Reason
from byoc.errors import PartitionError
from byoc.partition.boundaries import HOST
from byoc.partition.content.cut import PlannedCut
from byoc.partition.content.plan_json import plan_to_json
from byoc.partition.content.plan_origin import PlanOrigin, Sweep, sweep

if TYPE_CHECKING:
    from byoc.partition.content.difference import PlanDiff


@dataclass(frozen=True)
class Plan(PlannedCut):
    """A cut of one module.

    *decisions* has an entry for each call, in post-order; *dissolved* the numbers of the composites that were taken
    apart again, by target; *notes* what happened on the way (a check that raised). A plan with *total* was made by
    cost: its composites are *composites*, its regions those that the decisions name, and *moves* what is brought where.
    *layouts* are places for the layouts that backends ask for (``cut/layouts.py``), of the calls before composites.
    *places* are those of the calls before casts were written between them, where that was needed. *preferred*: made
    with a priority list for some operators; its composites are *composites* too. *measured* has seconds by region's
    name, and under ``total`` for the whole model. *stand_ins* says of each region that its target could not make
    why the host computes it. *origin* is None for a plan that was read from a file.
    """

    origin: PlanOrigin[Plan] | None = field(default=None, compare=False, repr=False)

    @property
    def is_read(self) -> bool:
        return self.origin is None

    def with_measured(self, seconds: Mapping[str, float]) -> Plan:
        """The plan with what was measured: seconds by region's name, the whole model's under ``total``."""
        return replace(self, measured=dict(seconds))

    def with_stand_ins(self, reasons: Mapping[str, str]) -> Plan:
        """The plan as it was built: why the host computes regions that their targets could not make, by their names."""
        return self if reasons == self.stand_ins else replace(self, stand_ins=dict(reasons))

    def diff(self, other: Plan) -> PlanDiff:
        """What *other* does otherwise. Raises PartitionError for what is no plan."""
        from byoc.partition.content.difference import diff

        if not isinstance(other, Plan):
            raise PartitionError(f"diff takes another plan, got {type(other).__name__}")
        return diff(self, other)

    def pin(self, places: Mapping[str, str] | str, *more: str) -> Plan:
        """The best plan with operators held: by name where they are, or at the targets that a mapping gives."""
        return self._origin("pin").pinned(places if isinstance(places, Mapping) else self._places((places, *more)))

    def _places(self, names: tuple[str, ...]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in names:
            targets = {d.target or HOST for d in self.explain(name).decisions}
            if len(targets) > 1:
                places = ", ".join(sorted(targets))
                raise PartitionError(f"pin: {name!r} means operators on {places}; pin each by its node")
            found[name] = targets.pop()
        return found

    def edit(self, places: Mapping[str, str]) -> Plan:
        """This plan with the named operators at *places* (targets, or ``host``), all others where they are."""
        if not isinstance(places, Mapping):
            raise PartitionError(f'edit takes names with their targets, as edit({{"Conv_12": "host"}}), got {places!r}')
        return self._origin("edit").edited(places)

    def sweep(self, **limits: Sequence[object]) -> Sweep[Plan]:
        """A plan for each value of one limit: ``plan.sweep(min_gain=[0, 50, 500])``."""
        return sweep(self._origin("sweep"), limits)

    def with_note(self, note: str) -> Plan:
        """This plan with one sentence more on how it came about."""
        return replace(self, notes=(*self.notes, note))

    def without(self, gone: Mapping[str, Reason]) -> Plan:
        """The best plan without the targets *gone*, each for its reason."""
        return self._origin("planning again").without(gone)

    def _origin(self, what: str) -> PlanOrigin[Plan]:
        if self.origin is None:
            raise PartitionError(f"{what} needs the module that the plan was made for: this plan was read from a file")
        return self.origin

    def to_json(self) -> dict[str, object]:
        """The plan as values that ``json.dumps`` takes."""
        return plan_to_json(self)

    @staticmethod
    def from_json(data: object) -> Plan:
        """The plan that :meth:`to_json` gave, as a mapping or as text. Raises PartitionError for anything else."""
        try:
            read: object = json.loads(data) if isinstance(data, str) else data
        except (ValueError, RecursionError) as error:
            raise PartitionError(f"a plan must be JSON: {error}") from error
        from byoc.partition.content.plan_reading import plan_from_json

        return plan_from_json(read, Plan)

    def __repr__(self) -> str:
        placed = sum(d.target is not None for d in self.decisions)
        targets, regions = ", ".join(self.targets) or "the host alone", len(self.regions)
        count = f"{regions} region{'' if regions == 1 else 's'}"
        return f"Plan({self.policy}, {targets}: {count}, {placed} of {len(self.decisions)} operators offloaded)"

    def __str__(self) -> str:
        from byoc.partition.show.table import plan_table

        return plan_table(self)

    def _repr_html_(self) -> str:
        from byoc.partition.show.report_page import notebook

        return notebook(self, None if self.origin is None else self.origin.mod)
