"""Stages whose neighbours are made of neighbours: a work-item computes several, which it loads and stores at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, Range, numbered
from byoc.codegen.opencl.device.statements import KernelWriter, OwnText, StoreVector, WorkItem
from byoc.codegen.opencl.elements.sectors import MOST_NODES, at_place
from byoc.te import Index, PrimExpr, Tensor, placeholder
from byoc.te.expr import LOGIC, Binary, Reduce, Select
from byoc.te.tensor import Load
from byoc.te.walk import checks_of, map_expr, unique_nodes

WIDTH = 4  # elements of a work-item: 16 bytes of float32
ITEMS_OF_A_UNIT = 1024  # that are left, or its neighbours would be better work-items of their own


@dataclass(frozen=True)
class VectorStage:
    """A stage whose elements along *last* are computed *width* at a time; *beside* are the loads that are vectors."""

    nest: Nest
    last: Index
    beside: tuple[Load, ...]

    @staticmethod
    def of(nest: Nest, simplify: Simplifier) -> VectorStage | None:
        """That of *nest*; None where neighbours are not made of neighbours, or not from where a vector may begin."""
        moving = [a for a in nest.axes if a.extent != 1]
        if not moving or not isinstance(moving[-1].extent, int) or moving[-1].extent % WIDTH:
            return None
        last, nodes = moving[-1], list(unique_nodes(nest.value))
        if len(nodes) > MOST_NODES or any(isinstance(n, Reduce) for n in nodes) or checks_of([nest.value]):
            return None
        loads = [n for n in nodes if isinstance(n, Load) and n.indices]
        steps = [_step(load, last, simplify) for load in loads]
        beside = tuple(load for load, step in zip(loads, steps, strict=True) if step)
        if not beside or None in steps or (_may_not_load(nodes) and not all(_is_inside(n, simplify) for n in beside)):
            return None
        return VectorStage(nest, last, beside)

    def kernel(self, simplify: Simplifier, local: int, when: tuple[Range, ...] = ()) -> KernelPlan:
        """A work-item a vector, *local* of them a group, for calls in which all of *when* holds."""
        nest, last = self.nest, self.last
        block = Index("block", int(last.extent) // WIDTH)
        item, axes = numbered("item", [block if a is last else a for a in nest.axes], simplify)
        places: list[PrimExpr] = [block * WIDTH + k for k in range(WIDTH)]
        parts = {
            load: tuple(placeholder((), load.dtype, f"{load.tensor.name}_{k}") for k in range(WIDTH))
            for load in self.beside
        }
        first = {load: load.of(load.tensor, at_place(load.indices, [last], [places[0]])) for load in self.beside}
        loads = [LoadVector(own, first[load]) for load, own in parts.items()]
        values = [_element(nest.value, parts, k, last, place) for k, place in enumerate(places)]
        indices = at_place(nest.indices, [last], [places[0]])
        code = [WorkItem(item, local), *axes, *loads, StoreVector(nest.stage, indices, values)]
        return KernelPlan("vector", code, as_index(item.extent), when=when, local=local)


def _step(load: Load, last: Index, simplify: Simplifier) -> int | None:
    """How far apart what *load* loads for neighbours along *last* is, 1 only from where a vector may begin.

    None for what is neither beside each other nor the same element.
    """
    place = simplify.flat_index(load.tensor, load.indices)
    step = place.coefficient(last)
    others = [(atoms, n) for atoms, n in place.terms.items() if not (len(atoms) == 1 and place.atoms[atoms[0]] is last)]
    if load.is_word or step not in (0, 1):
        return None
    if any(n is last for atoms, _ in others for a in atoms for n in unique_nodes(place.atoms[a])):
        return None
    aligned = all(n % WIDTH == 0 for n in (place.constant, *(n for _, n in others)))
    return step if aligned or step == 0 else None


def _may_not_load(nodes: Sequence[PrimExpr]) -> bool:
    """Whether some of *nodes* are not evaluated for each element."""
    return any(isinstance(n, Select) or (isinstance(n, Binary) and n.op in LOGIC) for n in nodes)


def _is_inside(load: Load, simplify: Simplifier) -> bool:
    """Whether *load* is of its tensor wherever it stands."""
    shape = load.tensor.shape
    if not all(isinstance(d, int) for d in shape):
        return False
    least, most = simplify.poly_bounds(simplify.flat_index(load.tensor, load.indices))
    return least >= 0 and most < math.prod(map(int, shape))


def _element(value: PrimExpr, parts: Mapping[Load, Sequence[Tensor]], k: int, last: Index, place: PrimExpr) -> PrimExpr:
    """Element *k* of a vector of *value*, whose loads have their *parts* already."""

    def leaf(expr: PrimExpr) -> PrimExpr | None:
        return parts[expr][k][()] if isinstance(expr, Load) and expr in parts else None

    return substitute_axes(map_expr(value, leaf), [last], [place])


@dataclass(frozen=True, eq=False)
class LoadVector(OwnText):
    """Declare *parts*, as many as a vector has: the element that *first* loads, and those behind it."""

    parts: Sequence[Tensor]
    first: Load

    def write(self, writer: KernelWriter) -> None:
        exprs, tensor = writer.exprs, self.first.tensor
        ctype = exprs.language.types[tensor.dtype]
        exprs.locals.update(self.parts)
        names = [exprs.names(part, part.name) for part in self.parts]
        *before, last = self.first.indices
        places = [exprs.element(tensor, (*before, last + k)) for k in range(len(names))]
        if exprs.has_address(tensor):
            vector = exprs.names.fresh("v")
            writer.writer.line(f"const {ctype}{WIDTH} {vector} = *(__global const {ctype}{WIDTH} *)&{places[0]};")
            places = [f"{vector}.s{k}" for k in range(len(names))]
        for name, place in zip(names, places, strict=True):
            writer.writer.line(f"const {ctype} {name} = {place};")
