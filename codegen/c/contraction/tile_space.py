"""The tiles of a contraction as a search space: a tuner may choose from it, else the cost model's tile is taken.

The choice stands in the stage's ``meta["tile"]``, put there when operands are packed, so that panels and loops agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from byoc.codegen.c.contraction.guards import Guard
from byoc.codegen.c.contraction.shape import PANEL, Contraction
from byoc.codegen.c.contraction.tile_choice import Tile, tiles
from byoc.codegen.c.tiling.access import Access
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.kernel.choice import Choice, Choices, SearchSpace
from byoc.codegen.kernel.inline import estimated_size
from byoc.ir.types import dtype_bytes
from byoc.runtime.core.ndarray import NDArray
from byoc.te import Dimension, Index, PrimExpr, Size, Tensor
from byoc.te.expr import Binary, Cast, Const, Intrinsic, Select
from byoc.te.tensor import Load
from byoc.te.walk import operands, unique_nodes

META = "tile"
OTHER_ORDER = 1.05  # the order that the model does not take, against the one that it takes


@dataclass(frozen=True)
class TileChooser:
    """Decides the tiles of a program's stages: *choices* are asked first. ``constants`` are the program's."""

    machine: Machine
    choices: Choices | None = None
    constants: Mapping[Tensor, NDArray] = field(default_factory=dict)

    def tile(self, stage: Tensor, c: Contraction, packed: str = "") -> Tile | None:
        """The tile of *stage*, which its schedule sees as *c*; None where none fits.

        *packed* says what its moving operand will be packed from, ``"constant"`` or ``"computed"``.
        """
        ranked = sorted(tiles(c, self.machine, bool(packed)), key=lambda pair: pair[0])
        if not ranked:
            return None
        best = ranked[0][1]
        if self.choices is None:
            return best
        space = tile_space(stage, c, ranked, packed, self.constants)
        choice = self.choices.choose(space)
        return best if choice is None or not space.legal(choice) else tile_of(choice, best.lanes)


def tile_space(
    stage: Tensor, c: Contraction, ranked: list[tuple[float, Tile]], packed: str, constants: Mapping[Tensor, NDArray]
) -> SearchSpace:
    """The search space of *stage*: all its tiles, given in the order of their cost."""
    passes = estimated_size([a.extent for a in c.batch])
    answers = []
    for cost, tile in ranked:
        answers.append((cost * passes, choice_of(tile, tile.lanes_first)))
        if c.standing:
            answers.append((cost * passes * OTHER_ORDER, choice_of(tile, not tile.lanes_first)))
    answers.sort(key=lambda pair: pair[0])
    loaded = {n.tensor for n in unique_nodes(stage.body) if isinstance(n, Load)} if stage.body is not None else set()
    kept = {t: constants[t] for t in constants if t in loaded}
    return SearchSpace(describe(c, packed), tuple(answers), stage, kept)


def choice_of(tile: Tile, lanes_first: bool) -> Choice:
    """*tile* as a choice, with its loops in that order."""
    matrix = {"matrix_rows": tile.matrix_rows} if tile.matrix_rows else {}
    return Choice.of(META, rows=tile.rows, vectors=tile.vectors, lanes_first=lanes_first, **matrix)


def tile_of(choice: Choice, lanes: int) -> Tile:
    """The tile of a choice, of vectors of so many lanes."""
    matrix_rows = int(dict(choice.parameters).get("matrix_rows", 0))
    return Tile(int(choice["rows"]), int(choice["vectors"]), lanes, bool(choice["lanes_first"]), matrix_rows)


def describe(c: Contraction, packed: str) -> str:
    """What *c* computes as one canonical text: no names, every extent and every stride that its loops see.

    Of the epilogue it records which operations there are, of other tensors their dtype and how they are walked.
    """
    axes = {axis: f"i{k}" for k, axis in enumerate(c.nest.axes)} | {a: f"k{k}" for k, a in enumerate(c.reduce.axes)}
    loads = [*c.moving, *c.standing]
    names = {a.load: f"x{k}" for k, a in enumerate(loads)}
    parts = [
        f"{c.nest.stage.dtype}[{', '.join(_extent(a.extent) for a in c.nest.axes)}]",
        f"sum[{', '.join(_extent(a.extent) for a in c.reduce.axes)}] {_text(c.term, names)}",
        f"lane {axes[c.lane]}",
        f"row {axes[c.row] if c.row is not None else '-'}",
        *(f"{names[a.load]}: {_access(a, axes)}" for a in loads),
        *sorted(_guard(g, axes) for g in c.guards),
        f"then {_epilogue(c)}",
    ]
    return "; ".join([*parts, f"packed from {packed}"] if packed else parts)


def _extent(extent: Dimension) -> str:
    return str(extent) if isinstance(extent, int) else extent.name if isinstance(extent, Size) else "?"


def _access(a: Access, axes: Mapping[Index, str]) -> str:
    if a.load.tensor.tag == PANEL:
        return f"panel of {a.load.dtype}"
    steps = [f"{axes[axis]}*{'?' if step is None else step}" for axis, step in a.steps.items() if step != 0]
    size = a.size * dtype_bytes(a.load.tensor.dtype)
    return f"{a.load.dtype} of {a.load.tensor.dtype} {'+'.join(steps) or '0'} in {size} bytes"


def _guard(g: Guard, axes: Mapping[Index, str]) -> str:
    place = f"{axes[g.position]}*{g.stride}" if g.position is not None else "0"
    return f"where {axes[g.axis]}*{g.step}+{place}{g.constant:+} >= 0"


def _text(term: PrimExpr, names: Mapping[Load, str]) -> str:
    """A term as nested calls."""
    if isinstance(term, Load):
        return names[term]
    if isinstance(term, Const):
        return repr(term.value)
    assert isinstance(term, (Binary, Intrinsic))
    operation = term.op if isinstance(term, Binary) else term.name
    return f"{operation}({', '.join(_text(e, names) for e in operands(term))})"


def _epilogue(c: Contraction) -> str:
    """The operations on the sum, each with its number."""
    inside = {id(n) for n in unique_nodes(c.reduce)}
    found = Counter(
        n.op if isinstance(n, Binary) else n.name if isinstance(n, Intrinsic) else type(n).__name__.lower()
        for n in unique_nodes(c.nest.value)
        if id(n) not in inside and isinstance(n, Binary | Intrinsic | Select | Cast | Load) and n.dtype != "int64"
    )
    return " ".join(f"{name}*{count}" if count > 1 else name for name, count in sorted(found.items())) or "stored"
