"""Why a limit of its backend keeps operators out of a region, as a verdict says it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from byoc.contract.verdict import Reason
from byoc.partition.problem import HOME, Bounds, Problem, Solution
from byoc.partition.solve.region_bytes import RegionBytes

KeptOut = Mapping[tuple[int, int], Reason]  # operator and site -> why it is not there


def beyond_bounds(sizes: RegionBytes, region: Sequence[int]) -> Reason | None:
    """Why the candidates *region* of a problem cannot be one region by themselves."""
    problem = sizes.problem
    bounds = problem.sites[problem.candidates[region[0]].site].bounds
    operators = sum(len(problem.candidates[c].operators) for c in region)
    if operators < bounds.min_operators:
        return Reason("min_operators", f"a region has at least {bounds.min_operators} operators", str(operators))
    if bounds.max_operators is not None and operators > bounds.max_operators:
        return Reason("max_operators", f"a region has at most {bounds.max_operators} operators", str(operators))
    if bounds.max_bytes is not None and (size := sizes.count(region)) > bounds.max_bytes:
        text = f"a region has at most {bounds.max_bytes} bytes of weights and activations"
        return Reason("max_bytes", text, str(size))
    return None


class Absences:
    """Why operators of *solution* are not at sites that could take them, as far as that is for a limit."""

    def __init__(self, problem: Problem, solution: Solution, objective: str, time_limit: float):
        self._problem = problem
        sites = tuple(replace(s, bounds=replace(s.bounds, min_operators=1)) for s in problem.sites)
        self._alone = RegionBytes(replace(problem, sites=sites))
        self._out = kept_out(problem, solution, objective, time_limit)

    def reason(self, operator: int, sites: Collection[int]) -> Reason | None:
        """Why *operator* is at none of *sites*: no region may hold it even alone, or a limit keeps it out."""
        problem = self._problem
        mine = [k for k in problem.covering[operator] if problem.candidates[k].site in sites]
        over = [beyond_bounds(self._alone, [k]) for k in mine]
        if over and all(over):
            return over[0]
        return next((self._out[operator, p] for p in sites if (operator, p) in self._out), None)


def kept_out(problem: Problem, solution: Solution, objective: str, time_limit: float) -> KeptOut:
    """Why operators of *solution* are not at sites where they would be if there were no limits.

    Found by solving once more without any, where a site that has some could take an operator that it does not get.
    """
    site_of = {o: problem.candidates[c].site for c in solution.chosen for o in problem.candidates[c].operators}
    limited = {p for p, site in enumerate(problem.sites) if p != HOME and site.bounds != Bounds()}
    if all(c.site not in limited or all(site_of[o] == c.site for o in c.operators) for c in problem.candidates):
        return {}
    from byoc.partition.solve import solve  # the solvers are for who asks for costs or has limits

    free = replace(problem, sites=tuple(replace(site, bounds=Bounds()) for site in problem.sites))
    best = solve(free, objective=objective, time_limit=time_limit, start=solution)
    found: dict[tuple[int, int], Reason] = {}
    sizes = RegionBytes(problem)
    for region in best.regions:
        site = problem.candidates[region[0]].site
        operators = [o for c in region for o in problem.candidates[c].operators]
        if site in limited and any(site_of[o] != site for o in operators):
            reason = beyond_bounds(sizes, region) or _in_all(problem, site, best)
            found.update(((o, site), reason) for o in operators if site_of[o] != site)
    return found


def _in_all(problem: Problem, site: int, best: Solution) -> Reason:
    """Why a region that is within its own bounds is not there."""
    sites, most = problem.region_limits.get(site, ((), None))
    count = sum(problem.candidates[region[0]].site in sites for region in best.regions)
    if most is not None and count > most:
        return Reason("max_regions", f"at most {most} regions of {problem.sites[site].owner}", str(count))
    gain = problem.sites[site].bounds.min_gain * 1e6
    if gain:
        return Reason("min_gain", f"a region gains at least {gain:.12g} us over what runs without it")
    return Reason("limit", "what is best without limits breaks one elsewhere")
