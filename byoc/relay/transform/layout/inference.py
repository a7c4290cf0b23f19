"""What layouts an operator call can have, given those of its inputs: the rules' form, elementwise and broadcasts.

A rule is asked twice: with the layouts that the inputs had (``new`` is None), and with those that they have now. It
answers with the layouts that the call wants of its inputs and gives its results, and with the attributes that fit; or
with None where it cannot decide, and then the inputs are brought back to what they were. Source:
``FInferCorrectLayout`` of Relay, ``src/relay/transforms/infer_layout_utils.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from byoc.ir.attrs import Attrs
from byoc.ir.layout import Layout
from byoc.ir.types import TensorType, TupleType, Type, tensor_types
from byoc.runtime.kernels.movement.layouts import NamedAxis

UNDEFINED = Layout()
SCALAR = Layout.of_axes([])
CHANNELS = Layout("C")


@dataclass(frozen=True)
class CorrectLayouts:
    """The layouts of the inputs (tuples flattened) and results of a call, and its attributes under them.

    Source: ``InferCorrectLayoutOutput``.
    """

    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    attrs: Any  # as a call has them

    @property
    def is_known(self) -> bool:
        """True when no layout is undefined."""
        return all(layout.defined for layout in (*self.inputs, *self.outputs))

    def with_scalars(self, results: Sequence[TensorType]) -> CorrectLayouts:
        """The same with results of no axes in the empty layout, where rules as Relay's leave them undefined."""
        if len(results) != len(self.outputs):
            return self
        outputs = [SCALAR if ty.ndim == 0 else layout for layout, ty in zip(self.outputs, results, strict=True)]
        return CorrectLayouts(self.inputs, tuple(outputs), self.attrs)


@dataclass(frozen=True)
class LayoutCase:
    """One request to a rule: the call's attributes and input types, the layouts before, and those now or None."""

    attrs: Any  # as a call has them
    new: tuple[Layout, ...] | None
    old: tuple[Layout, ...]
    types: tuple[Type, ...]

    @property
    def data(self) -> Layout:
        """The layout of the first input: as it is now, or as it was."""
        return self.old[0] if self.new is None else self.new[0]

    @property
    def ndim(self) -> int:
        """The rank of the first input before."""
        return self.tensor(0).ndim

    def tensor(self, index: int) -> TensorType:
        """The type of input *index*; of a tuple, that of its first field. Raises UserError where it is no tensor."""
        return tensor_types(self.types[index])[0]

    def moved(self, axis: int) -> int | None:
        """Where axis *axis* of the first input is now; None where that is not known or the axis is split."""
        layout = self.old[0]
        if not layout.defined or len(layout) != self.ndim or layout.parts[axis].block:
            return None
        name = layout[axis % self.ndim]
        place = self.data.index_of(name)
        return None if place < 0 or name.lower() in self.data else place

    def same(self, *outputs: Layout, attrs: Attrs | None = None) -> CorrectLayouts:
        """All inputs in the layout of the first; the results in *outputs*, by default in it too."""
        return CorrectLayouts((self.data,) * len(self.old), outputs or (self.data,), attrs or self.attrs)

    def with_channels(self, *outputs: Layout, attrs: Attrs | None = None, first: int = 1) -> CorrectLayouts:
        """The first inputs in the layout of the first, the others vectors along the channels."""
        inputs = (self.data,) * first + (CHANNELS,) * (len(self.old) - first)
        return CorrectLayouts(inputs, outputs or (self.data,), attrs or self.attrs)


LayoutRule = Callable[[LayoutCase], "CorrectLayouts | None"]


def elementwise(case: LayoutCase) -> CorrectLayouts | None:
    """Any layout, the same for all inputs: the first that is known. Source: ``ElemwiseArbitraryLayout``."""
    known = [layout for layout in (case.new[:1] if case.new else case.old) if layout.defined]
    if not known or isinstance(case.types[0], TupleType):
        return None
    return CorrectLayouts((known[0],) * len(case.old), (known[0],), case.attrs)


def elementwise_pair(case: LayoutCase) -> CorrectLayouts | None:
    """Two results in the layout of the input, such as those of ``nn.dropout``."""
    found = elementwise(case)
    return found and CorrectLayouts(found.inputs, found.outputs * 2, found.attrs)


def like_the_second(case: LayoutCase) -> CorrectLayouts | None:
    """The first input in any layout; the second, of which only the dtype is asked, follows where it has its rank."""
    if not case.data.defined:
        return None
    ranks = [ty.ndim for ty in case.types if isinstance(ty, TensorType)]
    other = case.data if ranks[0] == ranks[1] else (case.old[1] if case.old[1].defined else SCALAR)
    return CorrectLayouts((case.data, other), (case.data,), case.attrs)


def _broadcast_one_known(layouts: Sequence[Layout], ranks: Sequence[int]) -> tuple[Layout, Layout, Layout] | None:
    """Both inputs and the result, where only one layout is known: the other has its last axes."""
    known = 0 if layouts[0].defined else 1
    layout, missing = layouts[known], ranks[known] - ranks[1 - known]
    if missing < 0 or len(layout) != ranks[known]:
        return None
    part = layout.sub_layout(missing, ranks[1 - known])
    return (layout, part, layout) if known == 0 else (part, layout, layout)


def _broadcast(case: LayoutCase) -> tuple[Layout, Layout, Layout] | None:
    layouts = (case.new or case.old)[:2]
    types = [ty for ty in case.types[:2] if isinstance(ty, TensorType)]
    ranks = [ty.ndim for ty in types]
    if len(ranks) != 2 or not any(layout.defined for layout in layouts):
        return None
    if not all(layout.defined for layout in layouts):
        return _broadcast_one_known(layouts, ranks)
    if 0 in map(len, layouts):
        return layouts[0], layouts[1], layouts[1] if len(layouts[0]) == 0 else layouts[0]
    large = 0 if len(layouts[0].primal) >= len(layouts[1].primal) else 1
    # axes meet from the last one on: their names must agree there, or the layouts mean other axes
    whole, part = case.old[large], case.old[1 - large]
    if len(whole) < len(part) or whole.sub_layout(len(whole) - len(part), len(part)) != part:
        return None
    if case.new is None:
        return layouts[0], layouts[1], layouts[large]
    result = layouts[large]
    small = _for_broadcast(result, whole, types[1 - large]) if whole == part else result
    return (result, small, result) if large == 0 else (small, result, result)


def _for_broadcast(layout: Layout, old: Layout, ty: TensorType) -> Layout:
    """*layout* for an operand of *ty* that was in *old*: blocks of 1 where it has one element along a new block.

    Source: ``AdjustSubordinateFactors``.
    """

    def adjusted(part: NamedAxis) -> NamedAxis:
        place = old.index_of(part.letter)
        single = place < 0 or (ty.shape[place] == 1 and part.letter.lower() not in old)
        return NamedAxis(part.letter, 1) if part.block and single else part

    return Layout.of_axes([adjusted(part) for part in layout.parts])


def broadcast(case: LayoutCase) -> CorrectLayouts | None:
    """Both inputs in the layout of the one with more axes. Source: ``BinaryBroadcastLayout``."""
    found = _broadcast(case)
    return None if found is None else CorrectLayouts(found[:2], found[2:], case.attrs)


def quantized_broadcast(case: LayoutCase) -> CorrectLayouts | None:
    """A broadcast whose further inputs are scales and zero points. Source: ``QnnBinaryBroadcastLayout``."""
    found = _broadcast(case)
    if found is None:
        return None
    return CorrectLayouts((*found[:2], *(CHANNELS,) * (len(case.old) - 2)), found[2:], case.attrs)


def field_count(ty: Type) -> int:
    """The number of tensors in the type of one argument."""
    return len(ty.fields) if isinstance(ty, TupleType) else 1
