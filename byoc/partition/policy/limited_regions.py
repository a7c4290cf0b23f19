"""The regions of decided calls, held to limits: what ``limits.py`` does where there are any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from byoc.contract.limits import Limits
from byoc.contract.verdict import Reason, Verdict
from byoc.ir.module import IRModule
from byoc.partition.boundaries import HOST
from byoc.partition.calls import Decision, functions_of, inner_calls
from byoc.partition.costs.model import CostModel
from byoc.partition.costs.work import call_operations
from byoc.partition.policy.candidates import bounds_of
from byoc.partition.policy.dataflow import Dataflow, dataflow
from byoc.partition.policy.gains import Gains
from byoc.partition.policy.limit_reasons import beyond_bounds
from byoc.partition.problem import HOME, Candidate, Problem, ProblemValue, Site
from byoc.partition.solve.region_bytes import RegionBytes
from byoc.partition.solve.regions import regions_and_broken
from byoc.relay.expr import Call


def regions_within(
    mod: IRModule, decisions: Sequence[Decision], limits: Mapping[str, Limits], costs: CostModel | None
) -> list[Decision]:
    """*decisions* about the calls of *mod*, each with its region; those that no region can hold are on the host."""
    found: list[Decision] = []
    regions = 0
    for _, func in functions_of(mod):
        flow = dataflow(func)
        part = decisions[len(found) : len(found) + len(flow.calls)]
        held = _Function(flow, part, limits, regions, None if costs is None else Gains(flow, costs))
        found += held.run()
        regions = held.regions
    return found


class _Function:
    """The calls of one function; calls of inner scopes, which no region may join, stay in regions of their own."""

    def __init__(
        self,
        flow: Dataflow,
        decisions: Sequence[Decision],
        limits: Mapping[str, Limits],
        regions: int,
        gains: Gains | None,
    ):
        self.flow, self.limits, self.regions, self.gains = flow, limits, regions, gains
        self.decisions = [d if d.region is None else replace(d, region=None) for d in decisions]
        self.count = [len(inner_calls(call)) for call in flow.calls]
        self.first = np.concatenate(([0], np.cumsum(self.count))).tolist()
        self.targets = list(dict.fromkeys(d.target for d in decisions if d.target is not None))

    def run(self) -> list[Decision]:
        while True:
            problem = self._problem()
            sizes = RegionBytes(problem)
            regions, broken = regions_and_broken(problem, list(range(len(self.decisions))), sizes)
            refused: dict[int, Reason] = {}
            for region, _ in broken:
                reason = beyond_bounds(sizes, region)
                if reason is not None:
                    refused.update(dict.fromkeys(region, reason))
            refused = refused or self._too_small(regions) or self._too_poor(regions) or self._too_many(regions)
            if not refused:
                break
            for call, reason in refused.items():
                self.decisions[call] = _dropped(self.decisions[call], reason)
        for members in regions:
            for candidate in members:
                self.decisions[candidate] = replace(self.decisions[candidate], region=self.regions)
            self.regions += 1
        return self.decisions

    def _problem(self) -> Problem:
        """The placement that was decided, as a problem of no choice: candidate k is call k; bytes stand for seconds."""
        price = 1.0 + sum(v.bytes for v in self.flow.values)
        sites, place = {HOST: Site(HOST, HOST)}, {HOST: HOME}
        candidates: list[Candidate] = []
        for k, (call, decision) in enumerate(zip(self.flow.calls, self.decisions, strict=True)):
            target = decision.target or HOST
            apart = f"call {k}" if k in self.flow.inner else f"level {self.flow.levels[k]}"
            key = target if target == HOST else f"{target} of {apart}"
            if key not in sites:
                bounds = replace(bounds_of(self.limits.get(target, Limits())), max_regions=None, min_gain=0.0)
                sites[key] = Site(target, target, price, bounds)
            operators = tuple(range(self.first[k], self.first[k + 1]))
            site = place.setdefault(key, len(place))
            candidates.append(Candidate(decision.operator, operators, site, 0.0, self.flow.weights(call)))
        values = tuple(
            ProblemValue(
                None if v.producer is None else self.first[v.producer + 1] - 1,
                tuple(self.first[c] for c in v.consumers),
                v.bytes,
                v.result,
                v.weight,
            )
            for v in self.flow.values
        )
        transfer = np.zeros((len(values), len(sites), len(sites)))
        transfer += np.array([0 if v.weight else v.bytes for v in values], float).reshape(-1, 1, 1)
        transfer[:, 0, 0] = 0.0
        return Problem(self.first[-1], values, tuple(sites.values()), tuple(candidates), transfer)

    def _too_small(self, regions: Sequence[Sequence[int]]) -> dict[int, Reason]:
        refused: dict[int, Reason] = {}
        for region in regions:
            least = self.limits.get(str(self.decisions[region[0]].target), Limits()).min_operations
            operations = self._operations(region)
            if operations < least:
                reason = Reason("min_operations", f"a region has at least {least} operations", str(operations))
                refused.update(dict.fromkeys(region, reason))
        return refused

    def _too_poor(self, regions: Sequence[Sequence[int]]) -> dict[int, Reason]:
        refused: dict[int, Reason] = {}
        targets = [d.target for d in self.decisions]
        region_of = {c: k for k, region in enumerate(regions) for c in region}
        for region in regions:
            least = self.limits.get(str(targets[region[0]]), Limits()).min_gain
            if self.gains is None or not least:
                continue
            gain = 1e6 * self.gains.of(region, targets, region_of)
            if gain < least:
                reason = Reason("min_gain", f"a region gains at least {least:.12g} us", f"{gain:.3g} us")
                refused.update(dict.fromkeys(region, reason))
        return refused

    def _too_many(self, regions: Sequence[Sequence[int]]) -> dict[int, Reason]:
        refused: dict[int, Reason] = {}
        for target in self.targets:
            most = self.limits.get(target, Limits()).max_regions
            mine = [r for r in regions if self.decisions[r[0]].target == target]
            if most is None or len(mine) <= most:
                continue
            ranked = sorted(mine, key=lambda r: (-self._operations(r), -sum(self.count[c] for c in r), tuple(r)))
            reason = Reason("max_regions", f"at most {most} regions of {target}, by operations", str(len(mine)))
            refused.update({c: reason for region in ranked[most:] for c in region})
        return refused

    def _operations(self, region: Sequence[int]) -> int:
        calls: list[Call] = [self.flow.calls[c] for c in region]
        return sum(call_operations(inner) for call in calls for inner in inner_calls(call))


def _dropped(decision: Decision, reason: Reason) -> Decision:
    no = Verdict(False, decision.operator, decision.nodes, (reason,))
    verdicts = tuple((t, no if t == decision.target else v) for t, v in decision.verdicts)
    return replace(decision, target=None, verdicts=verdicts, region=None)
