"""What no best placement needs is taken out before solving: candidates that others of their site beat, and sites where
all is as fast at another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.partition.problem import HOME, Candidate, Problem


def useful_candidates(problem: Problem) -> tuple[int, ...]:
    """The numbers of the candidates that a best solution may need, rising.

    Left out are candidates that are no slower and no larger by others of their site, alone or operator by operator,
    those that wait for themselves: some tensor leaves them and comes back through another operator; and those of a site
    that another one replaces (:func:`replaced_sites`).
    """
    best: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for number, candidate in enumerate(problem.candidates):
        rivals = best.setdefault((candidate.site, candidate.operators), [])
        rivals.append(number)
    replaced = replaced_sites(problem, best)
    kept = [n for (site, _), rivals in best.items() if site not in replaced for n in _undominated(problem, rivals)]
    alone = {
        (c.site, c.operators[0]): c
        for c in (problem.candidates[n] for n in sorted(kept, key=lambda n: -problem.candidates[n].seconds))
        if len(c.operators) == 1
    }
    after: list[list[int]] = [[] for _ in range(problem.operators)]
    for u, v in problem.edges:
        after[u].append(v)
    return tuple(sorted(n for n in kept if _is_useful(problem, problem.candidates[n], alone, after)))


def replaced_sites(problem: Problem, by_site: Mapping[tuple[int, tuple[int, ...]], Sequence[int]]) -> set[int]:
    """The sites that no best placement needs: whatever runs there runs in no more time at another site of the device,
    with the same limits and launches, and no tensor takes longer to there or from there.

    With every region of the one at the other, a placement is as good: regions keep their operators, and two of them
    that meet pay no more for what passes between. *by_site* are the numbers of the candidates by site and operators.
    """
    units: dict[int, dict[tuple[int, ...], list[Candidate]]] = {}
    for (site, operators), numbers in by_site.items():
        units.setdefault(site, {})[operators] = [problem.candidates[n] for n in numbers]
    found: set[int] = set()
    for q in reversed(range(1, len(problem.sites))):  # of equal ones the first stays
        others = (p for p in range(1, len(problem.sites)) if p != q and p not in found)
        if any(_replaces(problem, units.get(p, {}), units.get(q, {}), p, q) for p in others):
            found.add(q)
    return found


def _replaces(
    problem: Problem,
    there: Mapping[tuple[int, ...], Sequence[Candidate]],
    here: Mapping[tuple[int, ...], Sequence[Candidate]],
    p: int,
    q: int,
) -> bool:
    """Whether site *p*, whose units are *there*, serves for *q*, whose units are *here*."""
    first, second = problem.sites[p], problem.sites[q]
    if (first.device, first.owner or p, first.bounds) != (second.device, second.owner or q, second.bounds):
        return False
    if first.launch > second.launch:
        return False
    for operators, candidates in here.items():
        rivals = there.get(operators, ())
        if not all(any(r.seconds <= c.seconds and r.bytes <= c.bytes for r in rivals) for c in candidates):
            return False
    elsewhere = [x for x in range(len(problem.sites)) if x not in (p, q)]
    to, away, within = problem.transfer[:, :, p], problem.transfer[:, p, :], problem.transfer[:, p, p]
    between = [problem.transfer[:, q, q], problem.transfer[:, p, q], problem.transfer[:, q, p]]
    return bool(
        (to[:, elsewhere] <= problem.transfer[:, :, q][:, elsewhere]).all()
        and (away[:, elsewhere] <= problem.transfer[:, q, :][:, elsewhere]).all()
        and all((within <= cost).all() for cost in between)
    )


def _is_useful(
    problem: Problem, candidate: Candidate, alone: dict[tuple[int, int], Candidate], after: list[list[int]]
) -> bool:
    if not _may_be_anywhere(problem, candidate):
        return False
    if len(candidate.operators) == 1:
        return True
    return not (_beaten_apart(candidate, alone) or waits_for_itself(after, candidate.operators))


def _may_be_anywhere(problem: Problem, candidate: Candidate) -> bool:
    """Whether it is not too large for every region of its site, however many operators join it."""
    bounds = problem.sites[candidate.site].bounds
    return candidate.site == HOME or not (
        (bounds.max_operators is not None and len(candidate.operators) > bounds.max_operators)
        or (bounds.max_bytes is not None and candidate.bytes > bounds.max_bytes)
    )


def _undominated(problem: Problem, rivals: list[int]) -> list[int]:
    bytes_count = problem.sites[problem.candidates[rivals[0]].site].bounds.max_bytes is not None
    kept: list[int] = []
    for n in sorted(rivals, key=lambda n: (problem.candidates[n].seconds, problem.candidates[n].bytes, n)):
        if not kept or (bytes_count and problem.candidates[n].bytes < problem.candidates[kept[-1]].bytes):
            kept.append(n)
    return kept


def _beaten_apart(candidate: Candidate, alone: dict[tuple[int, int], Candidate]) -> bool:
    """Whether its operators one by one, at the same site, are as fast and as small."""
    parts = [alone.get((candidate.site, o)) for o in candidate.operators]
    singles = [p for p in parts if p is not None]
    return (
        len(singles) == len(parts)
        and sum(p.seconds for p in singles) <= candidate.seconds
        and sum(p.bytes for p in singles) <= candidate.bytes
    )


def waits_for_itself(after: list[list[int]], operators: tuple[int, ...]) -> bool:
    """Whether a path leads from one of *operators* through others back to one of them; *after* are the successors."""
    members = set(operators)
    last = max(operators)
    pending = [v for u in operators for v in after[u] if v not in members and v < last]
    seen = set(pending)
    while pending:
        for v in after[pending.pop()]:
            if v in members:
                return True
            if v < last and v not in seen:
                seen.add(v)
                pending.append(v)
    return False
