"""When regions and the operators at home run, if devices work side by side: the shortest schedule, and bounds on any.

A region is one job of its launch and its work on the device of its site, a candidate at home one on the home's. A job
starts when its device is free and all that it reads has arrived; a tensor arrives the seconds of its transfer after its
maker's job has ended, results at home likewise. Of few jobs every order that matters is looked at: of those that
compete for the device on which one could end first, each in turn goes first (Giffler and Thompson, "Algorithms for
solving production-scheduling problems", Operations Research 8, 1960). Of many, that of the longest path to the end goes
first among those that can start earliest (Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17,
1969).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from byoc.partition.problem import HOME, Problem

EXACT = 1e-9  # as a share: times nearer than this are equal
FEW = 10  # jobs up to which the order is the best, not a list's


def shortest_time(
    problem: Problem,
    chosen: Sequence[int],
    regions: Sequence[Sequence[int]],
    penalized: bool = False,
    within: float = math.inf,
) -> float:
    """Seconds from the start until all results are at home; *penalized* counts ``min_gain`` as launch time.

    The least of any order for up to FEW jobs, that of a list schedule for more. Where it is not below *within*, it may
    be that of a list schedule too.
    """
    jobs = [*map(tuple, regions), *((c,) for c in chosen if problem.candidates[c].site == HOME)]
    schedule = _Schedule(problem, jobs, penalized)
    listed = schedule.run()
    return listed if len(jobs) > FEW else min(listed, schedule.shortest(min(listed, within)))


class _Schedule:
    def __init__(self, problem: Problem, jobs: Sequence[Sequence[int]], penalized: bool):
        candidates = problem.candidates
        self.problem = problem
        self.site = [candidates[job[0]].site for job in jobs]
        self.seconds = [sum(candidates[c].seconds for c in job) for job in jobs]
        for job, site in enumerate(self.site):
            if site != HOME:
                self.seconds[job] += launch_of(problem, site, penalized)
        job_of = {o: j for j, job in enumerate(jobs) for c in job for o in candidates[c].operators}
        self.available = [0.0] * len(jobs)
        self.home = [0.0] * len(jobs)
        after: list[dict[int, float]] = [{} for _ in jobs]
        for t, value in enumerate(problem.values):
            maker = None if value.producer is None else job_of[value.producer]
            source = HOME if maker is None else self.site[maker]
            for reader in {job_of[c] for c in value.consumers}:
                delay = float(problem.transfer[t, source, self.site[reader]])
                if maker is None:
                    self.available[reader] = max(self.available[reader], delay)
                elif maker != reader:
                    after[maker][reader] = max(after[maker].get(reader, 0.0), delay)
            if value.result and maker is not None:
                self.home[maker] = max(self.home[maker], float(problem.transfer[t, source, HOME]))
        self.after = after
        self.waiting = [0] * len(jobs)
        for targets in after:
            for job in targets:
                self.waiting[job] += 1

    def run(self) -> float:
        """The seconds until the end."""
        tail = self._tails()
        free: dict[str, float] = {}
        available = list(self.available)
        ready = [(available[j], -tail[j], j) for j, count in enumerate(self.waiting) if not count]
        heapq.heapify(ready)
        end, waiting = 0.0, list(self.waiting)
        while ready:
            at, urgency, job = heapq.heappop(ready)
            device = self.problem.sites[self.site[job]].device
            start = max(available[job], free.get(device, 0.0))
            if start > at:
                heapq.heappush(ready, (start, urgency, job))
                continue
            free[device] = done = start + self.seconds[job]
            end = max(end, done + self.home[job])
            for other, delay in self.after[job].items():
                available[other] = max(available[other], done + delay)
                waiting[other] -= 1
                if not waiting[other]:
                    heapq.heappush(ready, (available[other], -tail[other], other))
        return end

    def shortest(self, within: float) -> float:
        """The seconds until the end in the best order; infinite where they are not below *within*, and where jobs wait
        for one another.
        """
        tail, devices = self._tails(), [self.problem.sites[s].device for s in self.site]
        best = math.inf
        nothing: dict[str, float] = {}
        begun = [(tuple(range(len(tail))), self.available, self.waiting, nothing, 0.0)]
        while begun:
            left, available, waiting, free, end = begun.pop()
            least = min(best, within)
            start = {j: max(available[j], free.get(devices[j], 0.0)) for j in left if not waiting[j]}
            if max((end, *(at + tail[j] for j, at in start.items()))) >= least * (1 - EXACT):
                continue
            if not start:  # all is done, or what is left waits for one another
                best = best if left else end
                continue
            first = min(start, key=lambda j: (start[j] + self.seconds[j], j))
            rivals = [j for j in start if devices[j] == devices[first]]
            ends = start[first] + self.seconds[first]
            for job in sorted((j for j in rivals if start[j] < ends or j == first), key=lambda j: (tail[j], j)):
                done = start[job] + self.seconds[job]
                arrived, missing = list(available), list(waiting)
                for other, delay in self.after[job].items():
                    arrived[other] = max(arrived[other], done + delay)
                    missing[other] -= 1
                rest = tuple(j for j in left if j != job)
                begun.append((rest, arrived, missing, {**free, devices[job]: done}, max(end, done + self.home[job])))
        return best

    def _tails(self) -> list[float]:
        """The longest path from the start of each job to the end."""
        order = [j for j, count in enumerate(self.waiting) if not count]
        waiting = list(self.waiting)
        for job in order:
            for other in self.after[job]:
                waiting[other] -= 1
                if not waiting[other]:
                    order.append(other)
        tail = [0.0] * len(self.seconds)
        for job in reversed(order):
            rest = max((delay + tail[other] for other, delay in self.after[job].items()), default=0.0)
            tail[job] = self.seconds[job] + max(rest, self.home[job])
        return tail


def launch_of(problem: Problem, site: int, penalized: bool) -> float:
    """The seconds of a launch at *site*."""
    place = problem.sites[site]
    return place.launch + (place.bounds.min_gain if penalized else 0.0)


def shortest_possible(problem: Problem, allowed: Sequence[Sequence[int]]) -> float:
    """Below the penalized makespan of every placement whose operators run as one of their candidates *allowed*.

    The larger of two: the longest path if every operator on it could choose alone and no device was ever busy, and the
    least work if all devices shared it evenly.
    """
    devices = len({s.device for s in problem.sites})
    work = sum(
        min(problem.candidates[c].seconds / len(problem.candidates[c].operators) for c in options)
        for options in allowed
    )
    return max(work / devices, _critical_way(problem, allowed)) * (1 - 1e-12)


def _critical_way(problem: Problem, allowed: Sequence[Sequence[int]]) -> float:
    reads: list[list[int]] = [[] for _ in range(problem.operators)]
    results: list[list[int]] = [[] for _ in range(problem.operators)]
    for t, value in enumerate(problem.values):
        for c in set(value.consumers):
            reads[c].append(t)
        if value.result and value.producer is not None:
            results[value.producer].append(t)
    done: list[dict[int, float]] = []
    transfer = problem.transfer
    end = 0.0
    for operator, options in enumerate(allowed):
        finished: dict[int, float] = {}
        for c in options:
            candidate = problem.candidates[c]
            q = candidate.site
            launch = launch_of(problem, q, True) if q != HOME else 0.0
            start = launch
            for t in (t for o in candidate.operators for t in reads[o]):
                maker = problem.values[t].producer
                if maker is None:
                    start = max(start, float(transfer[t, HOME, q]) + launch)
                elif maker not in candidate.operators and maker < operator:
                    start = max(
                        start,
                        min(
                            at + (0.0 if p == q else float(transfer[t, p, q]) + launch) for p, at in done[maker].items()
                        ),
                    )
            seconds = start + candidate.seconds
            finished[q] = min(finished.get(q, seconds), seconds)
        done.append(finished)
        end = max(
            end,
            min(
                at + max((float(transfer[t, p, HOME]) for t in results[operator]), default=0.0)
                for p, at in finished.items()
            ),
        )
    return end
