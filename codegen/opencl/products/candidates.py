"""Which tiles a product may have on a device, each with its kernel, the cheapest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.choice import Choice
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, Range
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.device.rates import FITTED
from byoc.codegen.opencl.products.kernel import product_kernel
from byoc.codegen.opencl.products.matrix_copies import copying_kernel
from byoc.codegen.opencl.products.matrix_format import BFLOAT16, FLOAT16, FORMATS, MatrixFormat
from byoc.codegen.opencl.products.matrix_kernel import matrix_kernel
from byoc.codegen.opencl.products.matrix_terms import Terms, can_be_copied, number_in_memory
from byoc.codegen.opencl.products.matrix_tile import MatrixTile, matrix_tiles
from byoc.codegen.opencl.products.shape import BlockProduct, guarded
from byoc.codegen.opencl.products.tile import TILES, DeviceTile, Pace, cost_of
from byoc.ir.types import dtype_bytes


@dataclass(frozen=True)
class TileCandidate:
    """A tile, in how many *parts*, one a work-group, the terms are summed, and the microseconds that it takes."""

    tile: DeviceTile | MatrixTile
    parts: int
    cost: float

    @property
    def choice(self) -> Choice:
        """What it is called where there is a choice."""
        if isinstance(self.tile, MatrixTile):
            return Choice.of("matrix", tile=self.tile.name, format=self.tile.format.name, parts=self.parts)
        return Choice.of("product", tile=self.tile.name, parts=self.parts)

    def kernel(
        self, p: BlockProduct, simplify: Simplifier, profile: DeviceProfile, when: tuple[Range, ...]
    ) -> KernelPlan:
        """The kernel that computes *p* so, for calls in which all of *when* holds."""
        if isinstance(self.tile, MatrixTile):
            make = copying_kernel if self.tile.copied else matrix_kernel
            return make(p, self.tile, simplify, profile.matrix_units, when)
        return product_kernel(p, self.tile, simplify, when)


def candidates(p: BlockProduct, profile: DeviceProfile, parts: Sequence[int] = (1,)) -> list[TileCandidate]:
    """Every tile that the device can launch, those of matrix units too where they take the product's numbers.

    Each in every number of *parts*, the cheapest first.
    """
    sizes, itemsize = p.sizes(), dtype_bytes(p.reduce.dtype)
    found: list[tuple[DeviceTile | MatrixTile, Pace]] = [*TILES]
    format = format_of(p, profile)
    if format is not None:
        tiles = matrix_tiles(format, profile.warpgroups)
        found += [(tile, pace) for tile, pace in tiles if not tile.copied or _copied(p, tile)]
    legal = [
        (tile, pace)
        for tile, pace in found
        if tile.items <= profile.max_group and tile.local_bytes(itemsize) <= profile.local_memory
    ]
    if profile.registers:  # of tiles of matrix units the driver's compiler says how many they need
        own = [pair for pair in legal if not isinstance(pair[0], DeviceTile) or _has_registers(pair[0], profile)]
        legal = own or legal
    rates = profile.rates or FITTED
    made = [TileCandidate(t, n, cost_of(sizes, t, pace, n, profile.units, rates)) for t, pace in legal for n in parts]
    return sorted(made, key=lambda c: c.cost)


def _has_registers(tile: DeviceTile, profile: DeviceProfile) -> bool:
    """Whether the registers of a group hold those of the work-items of *tile*."""
    return tile.items * tile.registers <= profile.registers


def _copied(p: BlockProduct, tile: MatrixTile) -> bool:
    """Whether both operands of *p* go to local memory as they lie, in steps of *tile*."""
    simplify = Simplifier()
    terms = Terms.of(p.reduce.axes, tile.format, tile.points, simplify)
    return all(can_be_copied(operand, terms, simplify) for operand in (p.left, p.right))


def format_of(p: BlockProduct, profile: DeviceProfile) -> MatrixFormat | None:
    """The format in which matrix units of a device multiply the operands of *p*; None where they do not.

    Operands that are both float16, or both bfloat16, stay what they are; others are float32, for which the user says
    it.
    """
    if not profile.matrix_units or p.reduce.dtype != "float32":
        return None
    for format in (FLOAT16, BFLOAT16):
        if all(number_in_memory(guarded(o.value)[1], format) is not None for o in (p.left, p.right)):
            return format
    return FORMATS.get(profile.products)
