"""The placement problem as numbers, without a graph language: operators, tensors, places, and what everything costs.

A *candidate* is one way to run one operator, or the operators that a pattern covers, at one place. A solution chooses
candidates that cover each operator once and joins those of one place to regions; place 0 is the *home*: the host, where
inputs lie and results must arrive, and whose operators form no regions. Its cost is the sum of

- **work**: the seconds of the chosen candidates;
- **transfers**: a tensor is brought to each place that needs it once, however many read it there; between two regions
  of one place it is brought too (``transfer[t, p, p]``), within a region it is not;
- **launches**: ``Place.launch`` for each region.

A region is connected, and all regions contracted to one node each leave a graph without cycles, so that each is convex.
``min_gain`` is what a region must bring beside its launch: solvers count it as if it were launch time, the cost that
is reported does not contain it. Source of the formulation: minimum cuts for two places (Stone, 1977), its integer
program for more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

HOME = 0


@dataclass(frozen=True)
class Bounds:
    """Hard limits of the regions of one place: operators a region, bytes a region (weights and the peak of its
    activations), regions in all (at the sites of one owner together), the least operators a region; None is none.
    ``min_gain`` is in seconds.
    """

    max_operators: int | None = None
    max_bytes: int | None = None
    max_regions: int | None = None
    min_operators: int = 1
    min_gain: float = 0.0


@dataclass(frozen=True)
class Site:
    """A place as the solvers know it: its name, its device (sites of one device do not run at once), the seconds of a
    launch, its limits, and its owner (sites of one owner share ``max_regions``; without one it has its own).
    """

    name: str
    device: str
    launch: float = 0.0
    bounds: Bounds = Bounds()
    owner: str = ""


@dataclass(frozen=True)
class ProblemValue:
    """A tensor: the operator that makes it (None: an input of the model, which lies at home), those that read it, its
    bytes, and whether it is a result of the model, which must come home.

    A *weight* is a constant that several operators read: it is nobody's to bring, and a region in which any of them is
    holds it once, from the beginning to the end.
    """

    producer: int | None
    consumers: tuple[int, ...]
    bytes: int = 0
    result: bool = False
    weight: bool = False


@dataclass(frozen=True)
class Candidate:
    """One way to run *operators* (numbers, rising) at the site *site* in *seconds*; *bytes* are those of the weights
    that nothing else reads.
    """

    name: str
    operators: tuple[int, ...]
    site: int
    seconds: float
    bytes: int = 0


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be placed.

    ``operators`` is their number; they are numbered in a topological order. ``transfer[t, p, q]`` are the seconds to
    bring tensor t from site p to site q, float64 of shape (tensors, sites, sites); ``[t, 0, 0]`` is 0. Each operator
    has a candidate of its own alone at home, or at least one somewhere.
    """

    operators: int
    values: tuple[ProblemValue, ...]
    sites: tuple[Site, ...]
    candidates: tuple[Candidate, ...]
    transfer: np.ndarray
    names: tuple[str, ...] = field(default=())

    @cached_property
    def covering(self) -> tuple[tuple[int, ...], ...]:
        """For each operator the numbers of the candidates that cover it."""
        found: list[list[int]] = [[] for _ in range(self.operators)]
        for number, candidate in enumerate(self.candidates):
            for operator in candidate.operators:
                found[operator].append(number)
        return tuple(map(tuple, found))

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """The pairs (from, to) of operators between which a tensor passes, each once, sorted."""
        return tuple(sorted({(v.producer, c) for v in self.values if v.producer is not None for c in v.consumers}))

    @cached_property
    def region_limits(self) -> Mapping[int, tuple[tuple[int, ...], int]]:
        """For each site whose regions are limited: the sites that share the limit, and how many regions it allows."""
        sharing: dict[str | int, list[int]] = {}
        for number, site in enumerate(self.sites):
            sharing.setdefault(site.owner or number, []).append(number)
        found: dict[int, tuple[tuple[int, ...], int]] = {}
        for sites in sharing.values():
            limits = [most for p in sites if (most := self.sites[p].bounds.max_regions) is not None]
            if limits:
                found.update(dict.fromkeys(sites, (tuple(sites), min(limits))))
        return found

    def name_of(self, operator: int) -> str:
        """What messages call an operator."""
        return self.names[operator] if operator < len(self.names) else f"operator {operator}"


@dataclass(frozen=True)
class Solution:
    """A choice: the numbers of the chosen candidates (rising), and the regions, each the numbers of its candidates.

    *seconds* is its cost without ``min_gain``; *bound* is below the cost of every solution under the same counting that
    the solver used (with ``min_gain``), None where unknown; *penalized* is the cost in that counting. *method* says who
    found it, *notes* what happened on the way.
    """

    chosen: tuple[int, ...]
    regions: tuple[tuple[int, ...], ...]
    seconds: float
    penalized: float
    bound: float | None
    method: str
    notes: tuple[str, ...] = ()

    @property
    def gap(self) -> float | None:
        """How far from the best this may be, as a share of its cost: 0 is proven best, None unknown."""
        if self.bound is None:
            return None
        return 0.0 if self.penalized <= 0 else max(0.0, (self.penalized - self.bound) / self.penalized)


def region_of_operator(problem: Problem, solution_regions: Sequence[Sequence[int]]) -> Mapping[int, int]:
    """The number of its region, for each operator that is in one."""
    return {
        operator: number
        for number, region in enumerate(solution_regions)
        for candidate in region
        for operator in problem.candidates[candidate].operators
    }
