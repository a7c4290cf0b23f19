"""The bytes of many regions of one problem, each in time that grows with the region only."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property

from byoc.partition.problem import Problem


class RegionBytes:
    """Counts as ``evaluate.region_bytes`` does; tensors are found by their operators."""

    def __init__(self, problem: Problem):
        self.problem = problem

    @cached_property
    def touching(self) -> list[list[int]]:
        """For each operator the tensors that it makes or reads."""
        found: list[list[int]] = [[] for _ in range(self.problem.operators)]
        for number, value in enumerate(self.problem.values):
            for operator in dict.fromkeys(value.consumers):
                found[operator].append(number)
            if value.producer is not None and value.producer not in value.consumers:
                found[value.producer].append(number)
        return found

    def count(self, chosen: Iterable[int]) -> int:
        """Weights, and the most bytes of tensors that live at once, of a region of the candidates *chosen*."""
        problem = self.problem
        members = [problem.candidates[c] for c in chosen]
        inside = sorted(o for m in members for o in m.operators)
        return sum(m.bytes for m in members) + self.peak(inside)

    def peak(self, inside: Sequence[int]) -> int:
        """The most bytes of tensors that live at once in a region of the rising operators *inside*."""
        values = self.problem.values
        step = {o: k for k, o in enumerate(inside)}
        change = [0] * (len(inside) + 1)
        for number in dict.fromkeys(t for o in inside for t in self.touching[o]):
            value = values[number]
            readers = [step[c] for c in value.consumers if c in step]
            begin = -1 if value.producer is None else step.get(value.producer, -1)
            leaves = begin >= 0 and (value.result or len(readers) < len(value.consumers))
            end = len(inside) - 1 if leaves or value.weight else max(readers, default=begin)
            change[max(begin, 0)] += value.bytes
            change[end + 1] -= value.bytes
        live = peak = 0
        for delta in change:
            live += delta
            peak = max(peak, live)
        return peak

    def certain_peak(self, inside: Sequence[int]) -> int:
        """The most bytes of tensors that live at once in every region that contains the rising operators *inside*.

        A tensor lives from its maker, or from the first operator if that comes before, to its last reader among
        *inside*; a result of the model lives to the end. Who else may read it does not count.
        """
        values = self.problem.values
        step = {o: k for k, o in enumerate(inside)}
        change = [0] * (len(inside) + 1)
        for number in dict.fromkeys(t for o in inside for t in self.touching[o]):
            value = values[number]
            begin = 0 if value.producer is None else bisect_left(inside, value.producer)
            made = value.producer in step
            end = max((step[c] for c in value.consumers if c in step), default=begin if made else -1)
            if (made and value.result) or value.weight:
                end = len(inside) - 1
            if begin <= end:
                change[begin] += value.bytes
                change[end + 1] -= value.bytes
        live = peak = 0
        for delta in change:
            live += delta
            peak = max(peak, live)
        return peak

    def beyond(self, chosen: Sequence[int]) -> str | None:
        """Why the candidates *chosen* may not be one region, in words; None where they may."""
        candidates = self.problem.candidates
        bounds = self.problem.sites[candidates[chosen[0]].site].bounds
        count = sum(len(candidates[c].operators) for c in chosen)
        if bounds.max_operators is not None and count > bounds.max_operators:
            return f"{count} operators, at most {bounds.max_operators}"
        if count < bounds.min_operators:
            return f"{count} operators, at least {bounds.min_operators}"
        if bounds.max_bytes is not None:
            size = self.count(chosen)
            if size > bounds.max_bytes:
                return f"{size} bytes of weights and activations, at most {bounds.max_bytes}"
        return None
