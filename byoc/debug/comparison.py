"""What a comparison of two runs found: a row for each tensor that both have, and the first that parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from byoc.testing.core.difference import EXACT_DB, Errors

MOST_ROWS = 60


@dataclass(frozen=True)
class TensorRow:
    """A tensor of both runs: its name, the ONNX nodes behind it, and how far the second is from the first.

    *is_moved*: the second holds its elements in another order (a layout), and was brought into the first's.
    """

    name: str
    nodes: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    errors: Errors
    problem: str = ""
    is_output: bool = False
    is_moved: bool = False


@dataclass(frozen=True)
class LostSide:
    """A side whose process crashed or ended, or came to no end (*is_hung*): at which step, and what is known."""

    side: str
    step: str
    text: str
    is_hung: bool = False

    def __str__(self) -> str:
        return f"{self.side}: {self.step}: {self.text}"


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` found. ``str()`` is what the command prints, ``ok`` whether no tensor parts.

    *unmatched* are values that one run alone has, *reordered* those that were not compared since both have the same
    numbers in an order that is not that of a layout. *lost* is the side whose process crashed, ended or came to no end:
    then there are no rows.
    """

    first: str
    second: str
    rows: tuple[TensorRow, ...]
    unmatched: tuple[str, ...] = ()
    reordered: tuple[str, ...] = ()
    lost: LostSide | None = None

    @property
    def ok(self) -> bool:
        """Whether both sides gave their tensors, and each of the second is within the limits of the first's."""
        return self.diverging is None and self.lost is None

    @property
    def diverging(self) -> TensorRow | None:
        """The first tensor that is not, in the order of the first run."""
        return next((row for row in self.rows if row.problem), None)

    def to_json(self) -> dict[str, object]:
        """The comparison as values that ``json.dumps`` takes."""
        return {**asdict(self), "ok": self.ok, "diverging": self.diverging.name if self.diverging else None}

    def __str__(self) -> str:
        if self.lost is not None:
            return f"{self.first} and {self.second}: not compared\n{self.lost}"
        width = max((len(r.name) for r in self.rows), default=4)
        lines = [f"{self.first} and {self.second}: {len(self.rows)} tensors in both"]
        head = f"{'':2} {'tensor':{width}}  {'max abs':>10}  {'max rel':>10}  {'dB':>7}"
        lines.append(f"{head}  {'mean':>11}  {'std':>11}  {'its mean':>11}  {'its std':>11}")
        lines += [_line(r, width) for r in _shown(self.rows)]
        if len(self.rows) > MOST_ROWS:
            lines.append(f"   ... {len(self.rows)} rows; --json has them all")
        if self.unmatched:
            lines.append(f"in one of them alone: {len(self.unmatched)} values inside of groups or regions of the other")
        moved = [row.name for row in self.rows if row.is_moved]
        if moved:
            lines.append(f"~ in another layout in the second, compared in that of the first: {', '.join(moved)}")
        if self.reordered:
            lines.append(f"not compared, the same numbers in another order: {', '.join(self.reordered)}")
        where = self.diverging
        if where is None:
            lines.append("no tensor of the second leaves the first's")
        else:
            nodes = f" (nodes {', '.join(where.nodes)})" if where.nodes else ""
            lines.append(f"first tensor that diverges: {where.name}{nodes}: {where.problem}")
        return "\n".join(lines)


def _shown(rows: Sequence[TensorRow]) -> Sequence[TensorRow]:
    """The rows around the first that diverges, where there are too many."""
    if len(rows) <= MOST_ROWS:
        return rows
    at = next((k for k, r in enumerate(rows) if r.problem), 0)
    start = max(0, min(at - MOST_ROWS // 2, len(rows) - MOST_ROWS))
    return rows[start : start + MOST_ROWS]


def _line(row: TensorRow, width: int) -> str:
    e = row.errors
    ratio = "equal" if e.snr_db == EXACT_DB else f"{e.snr_db:.1f}"
    mark = "!!" if row.problem else "->" if row.is_output else "~" if row.is_moved else ""
    numbers = f"{e.max_abs:10.3g}  {e.max_rel:10.3g}  {ratio:>7}  {e.wanted_mean:11.4g}  {e.wanted_std:11.4g}"
    return f"{mark:2} {row.name:{width}}  {numbers}  {e.mean:11.4g}  {e.std:11.4g}"
