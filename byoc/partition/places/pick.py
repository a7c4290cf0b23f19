"""Choosing a kernel for an operator by policy ``score``.

Requires nothing of the graph but the operator itself. Kernels are ranked by: being one for the preferred place (with
*first_wish*, which is ours: by points alone a later place may win over the first, see ``grade``), then their grade,
then the order of their registration. The same request always gets the same kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from byoc.errors import PartitionError
from byoc.partition.place import ANY, Place, Precision
from byoc.partition.places.grade import Formula, GradeRow, KernelRequest, formula_of, same_target
from byoc.partition.places.kernel import Kernel, covers


@dataclass(frozen=True)
class Explanation:
    """Why an operator has its kernel: every row of the score, and *reasons*, one for each target passed over."""

    request: KernelRequest
    kernel: Kernel
    place: Place
    rows: tuple[GradeRow, ...]
    reasons: tuple[str, ...] = ()
    formula: str = ""
    by_first_wish: bool = False

    @property
    def wish(self) -> Place:
        """The valid place for which the kernel was chosen (Paddle Lite's ``winner_place``)."""
        return next(row.place for row in self.rows if row.winner)

    def __str__(self) -> str:
        head = f"{self.request}: {self.kernel} for {self.wish} by formula {self.formula}"
        if self.by_first_wish:
            head += ", the preferred place"
        titles = ("kernel", "place", "target", "precision", "layout", "inputs", "doubled by", "weight", "total", "")
        lines = [titles, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[k]) for line in lines) for k in range(len(titles))]
        table = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        return "\n".join([head, *self.reasons, *table])


def _cells(row: GradeRow) -> tuple[str, ...]:
    mark = "winner" if row.winner else "best of its kernel" if row.best else "another target" if row.gated else ""
    return (
        str(row.kernel),
        str(row.place),
        str(row.target),
        str(row.precision),
        str(row.layout),
        str(row.inputs),
        ", ".join(row.doubled) or "-",
        f"{float(row.weight):.3g}",
        f"{float(row.total):.1f}",
        mark,
    )


def valid_places(places: Iterable[Place | str]) -> tuple[Place, ...]:
    """Places in order of preference. Raises PartitionError when it is empty or names a place twice."""
    found = tuple(Place.of(p) for p in places)
    if not found:
        raise PartitionError("valid_places is empty; name at least the host's place")
    twice = next((p for k, p in enumerate(found) if p in found[:k]), None)
    if twice is not None:
        raise PartitionError(f"place {twice} is named twice in {', '.join(map(str, found))}; name each once")
    return found


def pick_kernel(
    request: KernelRequest,
    kernels: Sequence[Kernel],
    places: Sequence[Place],
    formula: str | Formula = "code",
    *,
    gate: bool = True,
    first_wish: bool = True,
) -> Explanation:
    """The kernel for *request* among *kernels* at the ordered *places*, with every row of its score.

    Raises PartitionError naming the operator and the places when none of *kernels* is on the target of a place.
    """
    rule = formula_of(formula)
    graded = [(k, rule.rows(request, k, places, gate)) for k in kernels]
    eligible = [(k, rows) for k, rows in graded if any(r.best for r in rows)]
    if not eligible:
        tried = ", ".join(map(str, places))
        raise PartitionError(
            f"no kernel for {request} at any of the places {tried}; add a trailing place of the host, or register one"
        )

    def rank(entry: tuple[Kernel, list[GradeRow]]) -> tuple[object, ...]:
        kernel, rows = entry
        wished = first_wish and serves_first_wish(request, kernel, places)
        return (not wished, -rule.score(next(r for r in rows if r.best)), kernel.order)

    winner, winning = min(eligible, key=rank)
    by_wish = first_wish and serves_first_wish(request, winner, places)
    counted = _winning_row(winning, by_wish)
    rows = tuple(replace(r, winner=True) if r is counted else r for _, rows in graded for r in rows)
    return Explanation(
        request,
        winner,
        place_of(winner, counted.place),
        rows,
        passed_over(request, kernels, places, winner),
        rule.name,
        by_wish,
    )


def _winning_row(rows: Sequence[GradeRow], by_wish: bool) -> GradeRow:
    return rows[0] if by_wish else next(r for r in rows if r.best)


def serves_first_wish(request: KernelRequest, kernel: Kernel, places: Sequence[Place]) -> bool:
    """Whether *kernel* is one for the first place; an int8 kernel only for an operator that carries ``enable_int8``."""
    if kernel.place.precision == Precision.INT8 and not request.int8:
        return False
    return covers(places[0], kernel)


def place_of(kernel: Kernel, wish: Place) -> Place:
    """Where *kernel* runs for *wish*: its own place, on the device that it names; its target for ``any``."""
    target = wish.target if kernel.place.target == ANY else kernel.place.target
    device = wish.device if wish.target == target else kernel.place.device
    return replace(kernel.place, target=target, device=device)


def passed_over(
    request: KernelRequest, kernels: Sequence[Kernel], places: Sequence[Place], winner: Kernel
) -> tuple[str, ...]:
    """``no opencl kernel for conv2d``, for each target preferred over the winner's that has no kernel."""
    first = next((k for k, p in enumerate(places) if same_target(winner.place.target, p.target)), len(places))
    targets = dict.fromkeys(p.target for p in places[:first])
    return tuple(
        f"no {t} kernel for {request.op}" for t in targets if not any(same_target(k.place.target, t) for k in kernels)
    )
