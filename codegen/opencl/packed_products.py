"""Which products are computed over packed operands: large ones, on devices whose warps multiply four at a time.

Constants are packed when they are compiled. Another operand is packed by a stage of its own, which does what an
elementwise stage in front does where the product alone reads that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from byoc.codegen.kernel.expr_parts import reduces_in
from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import with_body, with_meta, with_stages
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.device.choosing import is_static
from byoc.codegen.opencl.device.kernel_plan import OWN_KERNEL, own_kernel
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.device.rates import FITTED
from byoc.codegen.opencl.packed.kernel import PackedProduct, packed_pace, packed_tile
from byoc.codegen.opencl.packed.layout import LeftLayout, PackedLayout, RightLayout
from byoc.codegen.opencl.packed.packing import PackedSource, packing_stage
from byoc.codegen.opencl.products.candidates import format_of
from byoc.codegen.opencl.products.matrix_format import MatrixFormat
from byoc.codegen.opencl.products.matrix_terms import number_in_memory
from byoc.codegen.opencl.products.matrix_tile import matrix_tiles
from byoc.codegen.opencl.products.shape import factors_of, tiled_product
from byoc.codegen.opencl.products.tile import copy_cost, cost_of
from byoc.codegen.opencl.products.weights import ProgramWeights
from byoc.codegen.opencl.stage_uses import StageUses
from byoc.te import Index, PrimExpr, Tensor
from byoc.te.expr import Reduce
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, mentions, unique_nodes

GAIN = 0.95  # of the time of other tiles, at most: what is left must be worth the memory


def pack_products(program: Program, profile: DeviceProfile) -> Program:
    """*program* with packed operands for the products of which the model of the device says that it is faster."""
    if not profile.matrix_units or not profile.warpgroups:
        return program
    return _Packing(program, profile).rewritten()


@dataclass(frozen=True)
class _Operand:
    """A factor of a product: *load* is that of its number, over a *lane* and a *term* alone."""

    load: Load
    lane: Index
    term: Index


@dataclass(frozen=True)
class _Product:
    """The sum of products in a stage, and its operands, both of *format*: the rows' and the columns'."""

    reduce: Reduce
    left: _Operand
    right: _Operand
    format: MatrixFormat

    @property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """Those of the operands."""
        return self.left.load.tensor, self.right.load.tensor

    def layouts(self) -> tuple[PackedLayout, PackedLayout]:
        """How the operands are packed."""
        terms, per_word = int(self.left.term.extent), 32 // self.format.bits
        return (
            LeftLayout(int(self.left.lane.extent), terms, per_word),
            RightLayout(int(self.right.lane.extent), terms, per_word),
        )


class _Packing:
    def __init__(self, program: Program, profile: DeviceProfile):
        self._program, self._profile = program, profile
        self._weights, self._simplify = ProgramWeights(program), Simplifier()
        self._uses = StageUses(program)
        self._made: dict[tuple[Tensor, PackedLayout, bool], Tensor] = {}  # by tensor, layout, and order in memory
        self._fused: dict[Tensor, Tensor] = {}  # stages that packing does, each over what stands for what it loads

    def rewritten(self) -> Program:
        """The program over packed operands."""
        chosen = {s: p for g in self._program.groups for s in g.stages if (p := self._chosen(s)) is not None}
        if not chosen:
            return self._program
        fused = {t for s, p in chosen.items() for t in p.tensors if self._fuses(t, s, p)}

        def change(stage: Tensor, renamed: Tensor) -> list[Tensor]:
            if stage in fused:
                self._fused[stage] = renamed
                return []
            product = self._product(renamed) if stage in chosen else None
            return [renamed] if product is None else self._packed(renamed, product)

        program = self._weights.of(with_stages(self._program, change))
        return replace(program, groups=tuple(g for g in program.groups if g.stages))

    def _chosen(self, stage: Tensor) -> _Product | None:
        """The product that *stage* is, where the model takes packing to pay."""
        if stage in self._uses.fixed or own_kernel(stage) is not None or not is_static([stage]):
            return None
        product = self._product(stage)
        return product if product is not None and self._pays(stage, product) else None

    def _product(self, stage: Tensor) -> _Product | None:
        """*stage* as rows times columns of whole tensors of numbers of a format; None for another."""
        p = tiled_product(stage, self._simplify)
        format = None if p is None else format_of(p, self._profile)
        moving = [a for a in stage.axes if a.extent != 1]
        if p is None or format is None or format.split or len(moving) != 2:
            return None
        (reduce,) = reduces_in(stage.element)
        terms = [a for a in reduce.axes if a.extent != 1]
        factors = factors_of(reduce.body)
        if len(terms) != 1 or factors is None:
            return None
        if mentions(factors[0], moving[1]):
            factors = factors[::-1]
        left, right = (_operand(f, lane, terms[0], format) for f, lane in zip(factors, moving, strict=True))
        if left is None or right is None:
            return None
        return _Product(reduce, left, right, format)

    def _pays(self, stage: Tensor, product: _Product) -> bool:
        p = tiled_product(stage, self._simplify)
        assert p is not None
        rates, units = self._profile.rates or FITTED, self._profile.units
        sizes, format = p.sizes(), product.format
        others = min(cost_of(sizes, t, pace, 1, units, rates) for t, pace in matrix_tiles(format, warpgroups=True))
        own = cost_of(sizes, packed_tile(format), packed_pace(format), 1, units, rates)
        for operand in (product.left, product.right):
            tensor = operand.load.tensor
            if tensor in self._weights or self._fuses(tensor, stage, product):
                continue
            own += copy_cost(tensor.shape, tensor.dtype, rates)
            if self._is_by_lane(operand):
                others += copy_cost(tensor.shape, tensor.dtype, rates)
        return own < GAIN * others

    def _is_by_lane(self, operand: _Operand) -> bool:
        """Whether neighbouring lanes, and not neighbouring terms, lie side by side."""
        place = self._simplify.flat_index(operand.load.tensor, operand.load.indices)
        return place.coefficient(operand.term) != 1

    def _fuses(self, tensor: Tensor, stage: Tensor, product: _Product) -> bool:
        """Whether *tensor* is a stage that *product*, of *stage*, alone reads, each element made of one of another."""
        own = {product.left.load, product.right.load}
        if any(isinstance(n, Load) and n.tensor is tensor and n not in own for n in unique_nodes(stage.element)):
            return False  # what is done with the sums reads it too
        if tensor in self._weights or tensor.body is None or not self._uses.has_one_reader(tensor):
            return False
        loads = [n for n in unique_nodes(tensor.element) if isinstance(n, Load)]
        return len(loads) == 1 and not loads[0].is_word and not reduces_in(tensor.element)

    def _packed(self, stage: Tensor, product: _Product) -> list[Tensor]:
        """What stands for *stage*: the operands' packing, and the product."""
        made: list[Tensor] = []
        places = {}
        for operand, layout in zip((product.left, product.right), product.layouts(), strict=True):
            tensor = self._constant(operand, layout)
            if tensor is None:
                tensor, is_new = self._packing(operand, layout)
                made += [tensor] if is_new else []
            places[operand.load] = operand.load.of(tensor, layout.place(operand.lane, operand.term))
        body = map_expr(stage.element, lambda e: places.get(e) if isinstance(e, Load) else None)
        own = PackedProduct(product.format, self._profile.matrix_units)
        return [*made, with_meta(with_body(stage, body), OWN_KERNEL, own)]

    def _packing(self, operand: _Operand, layout: PackedLayout) -> tuple[Tensor, bool]:
        """The packed *operand*, and whether it was not there before."""
        name = f"{operand.load.tensor.name}_packed"
        key = operand.load.tensor, layout, self._is_by_lane(operand)
        if key in self._made:
            return self._made[key], False
        value: PrimExpr = operand.load
        stage = self._fused.get(operand.load.tensor)
        if stage is not None:
            value = substitute_axes(stage.element, stage.axes, operand.load.indices)
        (load,) = (n for n in unique_nodes(value) if isinstance(n, Load))
        by_lane = self._simplify.flat_index(load.tensor, load.indices).coefficient(operand.term) != 1
        source = PackedSource(value, operand.lane, operand.term, by_lane)
        self._made[key] = packing_stage(source, load.tensor, layout, name)
        return self._made[key], True

    def _constant(self, operand: _Operand, layout: PackedLayout) -> Tensor | None:
        """The packed constant that *operand* is; None for what is no constant, or in another order."""
        tensor = operand.load.tensor
        if tensor not in self._weights:
            return None
        turned = self._is_by_lane(operand)
        name = f"{self._weights.names[tensor]}_{type(layout).__name__}_{layout.lanes}_{turned}"

        def packed() -> np.ndarray:
            array = self._weights.arrays[tensor].numpy()
            both = array.reshape(layout.terms, layout.lanes).T if turned else array.reshape(layout.lanes, layout.terms)
            return layout.packed(both)

        return self._weights.made(name, tensor, packed)


def _operand(value: PrimExpr, lane: Index, term: Index, format: MatrixFormat) -> _Operand | None:
    """*value* as a number of a whole tensor, element by element; None where it is more than that."""
    inside = number_in_memory(value, format)
    load = value if inside is None else inside
    if not isinstance(load, Load) or load.is_word or (inside is None and load.tensor.dtype != "float32"):
        return None
    if format.bits == 16 and inside is None:
        return None
    moving = [(i, d) for i, d in zip(load.indices, load.tensor.shape, strict=True) if d != 1]
    if len(moving) != 2 or {id(i) for i, _ in moving} != {id(lane), id(term)}:
        return None
    return _Operand(load, lane, term)
