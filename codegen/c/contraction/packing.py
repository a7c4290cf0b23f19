"""Operands in panels: the columns of a tile side by side, term after term, so that a tile reads one stream.

A constant operand (weights) is packed when compiling, one that is computed by a stage of its own before the product.
The last panel is filled up with zeros. ``panel[batch..., block, terms..., width]`` holds what the operand has at lane
``block * width + position``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from byoc.codegen.c.contraction.shape import PANEL, Contraction, contraction, reads_whole_vectors
from byoc.codegen.c.contraction.tile_choice import Tile, choose_tile
from byoc.codegen.c.contraction.tile_space import META, TileChooser
from byoc.codegen.c.tiling.access import Access
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.kernel.choice import Choices
from byoc.codegen.kernel.collapse import Nest, collapse_axes
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import ProgramConstants, with_body, with_meta, with_stages
from byoc.codegen.kernel.simplify import Simplifier
from byoc.ir.types import dtype_bytes
from byoc.runtime.core.ndarray import NDArray
from byoc.te import Dimension, Index, PrimExpr, Tensor, compute, const, if_then_else
from byoc.te.expr import Binary, Const
from byoc.te.tensor import Load
from byoc.te.walk import map_expr

FEWEST_ROWS = 8  # rows that must share a panel that is packed at run time


def pack_operands(program: Program, machine: Machine, choices: Choices | None = None) -> Program:
    """*program* with the moving operand of each contraction in panels where that pays; without them, itself.

    Each contraction's tile is decided here, where *choices* are asked for it.
    """
    return _Packing(program, machine, choices).run() if machine.lanes(4) > 1 else program


class _Packing:
    def __init__(self, program: Program, machine: Machine, choices: Choices | None = None):
        self.program, self.machine, self.simplify = program, machine, Simplifier()
        self.constants = ProgramConstants(program)
        self.arrays = self.constants.arrays
        self.chooser = TileChooser(machine, choices, self.arrays)
        self.panels: dict[tuple[object, ...], Tensor] = {}

    def run(self) -> Program:
        program = with_stages(self.program, lambda _, stage: self._packed(stage))
        if not self.panels:
            return program
        return self.constants.of(program)

    def _packed(self, stage: Tensor) -> list[Tensor]:
        """*stage* over a panel, after the stage that packs it where that is not done already."""
        if 0 in stage.shape:
            return [stage]
        c = contraction(Nest(stage, stage.axes, tuple(stage.axes), stage.element), self.simplify)
        operand = None if c is None else self._to_pack(c)
        if c is None or operand is None:
            return [self._direct(stage)]
        constant = operand.load.tensor in self.arrays
        batch = self._batch(c, operand)
        some = _Panel(c, operand, batch, self.machine.lanes(dtype_bytes(c.reduce.dtype)))
        tile = self._tile(stage, some, "constant" if constant else "computed")
        if tile is None:
            return [self._direct(stage)]
        panel = _Panel(c, operand, batch, tile.width)
        tensor = self._constant_panel(panel) if constant else panel.stage()
        whole = with_meta(panel.reader(stage, tensor), META, tile)
        return [whole] if constant else [tensor, whole]

    def _to_pack(self, c: Contraction) -> Access | None:
        """The operand of *c* that is worth to be packed."""
        if len(c.moving) != 1 or not c.standing:
            return None
        operand = c.moving[0]
        if operand.load.tensor in self.arrays and not all(isinstance(a.extent, int) for a in c.reduce.axes):
            return None
        if c.row is not None and operand.steps[c.row] != 0:
            return None
        if operand.load.tensor not in self.arrays and not self._worth_packing(c, operand):
            return None
        return operand if all(isinstance(a.extent, int) for a in self._batch(c, operand)) else None

    def _direct(self, stage: Tensor) -> Tensor:
        """*stage*, which reads its operands as they lie, with its tile where somebody may know a better one."""
        if self.chooser.choices is None:
            return stage
        c = contraction(collapse_axes(stage, self.simplify), self.simplify)
        if c is None or not reads_whole_vectors(c):
            return stage
        tile = self.chooser.tile(stage, c)
        return stage if tile is None else with_meta(stage, META, tile)

    def _tile(self, stage: Tensor, panel: _Panel, packed: str) -> Tile | None:
        """The tile of *stage* as its schedule will see it, with axes joined where *panel*, of any width, allows."""
        some = Tensor("panel", panel.shape, panel.operand.load.dtype, tag=PANEL)
        c = contraction(collapse_axes(panel.reader(stage, some), self.simplify), self.simplify)
        return None if c is None else self.chooser.tile(stage, c, packed)

    def _batch(self, c: Contraction, operand: Access) -> list[Index]:
        return [a for a in c.batch if operand.steps[a] != 0]

    def _worth_packing(self, c: Contraction, operand: Access) -> bool:
        shared = estimated_size([c.row_count, *(a.extent for a in c.shared_batch)])
        tile = choose_tile(c, self.machine) if operand.steps[c.lane] == 1 else None
        whole = self.machine.lanes(dtype_bytes(c.reduce.dtype))
        direct = tile is not None and tile.lanes >= min(whole, int(c.lane.extent))
        return shared >= FEWEST_ROWS and not direct

    def _constant_panel(self, panel: _Panel) -> Tensor:
        source = panel.operand.load.tensor
        array = panel.values(self.arrays[source].numpy(), self.simplify)
        key = (source, array.shape, panel.key(self.simplify))
        if key not in self.panels:
            tensor = Tensor(f"{source.name}_panel", array.shape, source.dtype, tag=PANEL)
            self.panels[key] = tensor
            name = f"{self.constants.names[source]}_panel_{len(self.panels)}"
            self.constants.add(tensor, name, NDArray(array))
        return self.panels[key]


class _Panel:
    """The panel of an operand: its axes, and how it is loaded."""

    def __init__(self, c: Contraction, operand: Access, batch: list[Index], width: int):
        self.c, self.operand, self.batch, self.width = c, operand, batch, width
        self.blocks = -(-int(c.lane.extent) // width)

    @property
    def shape(self) -> tuple[Dimension, ...]:
        return (*(a.extent for a in self.batch), self.blocks, *(a.extent for a in self.c.reduce.axes), self.width)

    def load(self, tensor: Tensor) -> Load:
        lane = self.c.lane
        return Load(tensor, (*self.batch, lane // self.width, *self.c.reduce.axes, lane % self.width))

    def reader(self, stage: Tensor, tensor: Tensor) -> Tensor:
        """*stage* over the panels *tensor*."""
        nest = self.c.nest
        value = map_expr(nest.value, lambda e: self.load(tensor) if e is self.operand.load else None)
        return with_body(stage, _undivided(stage, nest, value))

    def key(self, simplify: Simplifier) -> tuple[object, ...]:
        """What distinguishes two panels of one constant."""
        axes = (*self.batch, self.c.lane, *self.c.reduce.axes)
        return (self._start(simplify), *((a.extent, self.operand.steps.get(a)) for a in axes))

    def _start(self, simplify: Simplifier) -> int:
        """Where the element lies whose every axis is at 0."""
        indices = [
            map_expr(i, lambda e: const(0, e.dtype) if isinstance(e, Index) else None)
            for i in self.operand.load.indices
        ]
        return simplify.flat_index(self.operand.load.tensor, indices).constant

    def stage(self) -> Tensor:
        """The stage that packs the operand at run time."""
        n = len(self.batch)

        def element(*i: Index) -> PrimExpr:
            lane = i[n] * self.width + i[-1]
            table: dict[PrimExpr, PrimExpr] = dict(zip(self.batch, i[:n], strict=True))
            table.update(zip(self.c.reduce.axes, i[n + 1 : -1], strict=True))
            table[self.c.lane] = lane
            value = map_expr(self.operand.load, lambda e: table.get(e) if isinstance(e, Index) else None)
            if int(self.c.lane.extent) % self.width == 0:
                return value
            return if_then_else(lane < int(self.c.lane.extent), value, const(0, value.dtype))

        return compute(self.shape, element, f"{self.operand.load.tensor.name}_panel", tag=PANEL)

    def values(self, source: np.ndarray, simplify: Simplifier) -> np.ndarray:
        """The panel of the constant *source*."""
        axes = [*self.batch, self.c.lane, *self.c.reduce.axes]
        lane = len(self.batch)
        steps = [s for a in axes if (s := self.operand.steps.get(a)) is not None]
        extents = [int(a.extent) for a in axes]
        if len(steps) == len(axes):
            flat = np.asarray(source, order="C").reshape(-1)[self._start(simplify) :]
            strides = [s * flat.itemsize for s in steps]
            whole = np.lib.stride_tricks.as_strided(flat, extents, strides, writeable=False)
        else:
            grid = {
                a: np.arange(n).reshape([-1 if k == j else 1 for j in range(len(axes))])
                for k, (a, n) in enumerate(zip(axes, extents, strict=True))
            }
            places = tuple(np.broadcast_to(_numbers(i, grid), extents) for i in self.operand.load.indices)
            whole = source[places]
        missing = self.blocks * self.width - extents[lane]
        padded = np.pad(whole, [(0, missing if k == lane else 0) for k in range(len(axes))])
        split = padded.reshape(*extents[:lane], self.blocks, self.width, *extents[lane + 1 :])
        return np.asarray(np.moveaxis(split, lane + 1, -1), order="C")


_NUMBERS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.floor_divide,
    "mod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
}


def _numbers(index: PrimExpr, grid: Mapping[Index, np.ndarray]) -> np.ndarray:
    """The value of an index expression at every point of *grid*."""
    if isinstance(index, Const):
        return np.asarray(index.value)
    if isinstance(index, Index):
        return grid[index]
    assert isinstance(index, Binary), index
    return np.asarray(_NUMBERS[index.op](_numbers(index.left, grid), _numbers(index.right, grid)))


def _undivided(stage: Tensor, nest: Nest, value: PrimExpr) -> PrimExpr:
    """*value* over the axes of *stage*, where the nest divides the last of them."""
    if len(nest.axes) == len(stage.axes):
        return value
    outer, inner = nest.axes[-2:]
    last = stage.axes[-1]
    table: dict[PrimExpr, PrimExpr] = {outer: last // inner.extent, inner: last % inner.extent}
    return map_expr(value, lambda e: table.get(e) if isinstance(e, Index) else None)
