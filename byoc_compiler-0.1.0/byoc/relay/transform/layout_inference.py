"""What layouts an operator call can have, given those of its inputs: the rules' form, elementwise and broadcasts.

A rule is asked twice: with the layouts that the inputs had (``new`` is None), and with those that they have now. It
answers with the layouts that the call wants of its inputs and gives its results, and with the attributes that fit; or
with None where it cannot tell, and then the inputs are brought back to what they were. Source: ``FInferCorrectLayout``
of Relay, ``src/relay/transforms/infer_layout_utils.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byoc.ir.attrs import Attrs
from byoc.ir.layout import Layout
from byoc.ir.types import TensorType, TupleType, Type

UNDEFINED = Layout()
SCALAR = Layout("")
CHANNELS = Layout("C")


@dataclass(frozen=True)
class CorrectLayouts:
    """The layouts of the inputs (tuples flattened) and results of a call, and its attributes under them.

    Source: ``InferCorrectLayoutOutput``.
    """

    inputs: tuple[Layout, ...]
    outputs: tuple[Layout, ...]
    attrs: Attrs | None

    @property
    def is_known(self) -> bool:
        """True when no layout is undefined."""
        return all(layout.defined for layout in (*self.inputs, *self.outputs))


@dataclass(frozen=True)
class LayoutCase:
    """One question to a rule: the call's attributes and input types, the layouts before, and those now or None."""

    attrs: Attrs | None
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
        ty = self.types[0]
        return ty.ndim if isinstance(ty, TensorType) else ty.fields[0].ndim  # type: ignore[union-attr]

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
    if not known:
        return None
    return CorrectLayouts((known[0],) * len(case.old), (known[0],), case.attrs)


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
    ranks = [ty.ndim for ty in case.types[:2] if isinstance(ty, TensorType)]
    if len(ranks) != 2 or not any(layout.defined for layout in layouts):
        return None
    if not all(layout.defined for layout in layouts):
        return _broadcast_one_known(layouts, ranks)
    if 0 in map(len, layouts):
        return (*layouts, layouts[1] if len(layouts[0]) == 0 else layouts[0])
    large = 0 if len(layouts[0].primal) >= len(layouts[1].primal) else 1
    # axes meet from the last one on: their names must agree there, or the layouts mean other axes
    whole, part = case.old[large], case.old[1 - large]
    if len(whole) < len(part) or whole.sub_layout(len(whole) - len(part), len(part)) != part:
        return None
    if case.new is None:
        return (*layouts, layouts[large])
    return (layouts[large],) * 3


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
