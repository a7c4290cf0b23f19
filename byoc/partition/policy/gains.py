"""What a region gains: the seconds that it and its transfers take less than the host would for the same operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.partition.calls import inner_calls
from byoc.partition.costs.model import HOST, CostModel
from byoc.partition.policy.dataflow import Dataflow
from byoc.partition.problem import ProblemValue


class Gains:
    """Gains of regions of the calls of *flow*, by *costs*; everything else stays where it is."""

    def __init__(self, flow: Dataflow, costs: CostModel):
        self._flow, self._costs = flow, costs

    def of(self, region: Sequence[int], targets: Sequence[str | None], region_of: Mapping[int, int]) -> float:
        """The seconds that the calls *region*, at ``targets``, save where each call is in the region ``region_of``."""
        inside = set(region)
        calls, leaving = [self._flow.calls[c] for c in sorted(region)], self._flow.leaving(inside)
        target = targets[region[0]] or HOST
        there = sum(e.seconds for e in self._costs.share(calls, leaving, target)) + self._costs.launch(target).seconds
        at_home = [inner for call in calls for inner in inner_calls(call)]
        home = sum(e.seconds for e in self._costs.share(at_home, leaving, HOST))
        without = [None if c in inside else t for c, t in enumerate(targets)]
        apart = {c: r for c, r in region_of.items() if c not in inside}
        for value in self._flow.values:
            if not value.weight and not inside.isdisjoint((value.producer, *value.consumers)):
                there += self._moving(value, targets, region_of)
                home += self._moving(value, without, apart)
        return home - there

    def _moving(self, value: ProblemValue, targets: Sequence[str | None], region_of: Mapping[int, int]) -> float:
        """The seconds of bringing a tensor to each target that needs it outside of the region that makes it."""
        maker = value.producer
        source = HOST if maker is None else targets[maker] or HOST
        made_in = None if maker is None else region_of.get(maker)
        needed = {targets[c] or HOST for c in value.consumers if made_in is None or region_of.get(c) != made_in}
        if value.result:
            needed.add(HOST)
        return sum(self._costs.way(value.bytes, source, place) for place in sorted(needed))
