"""Layouts: the axes of a tensor by name, whole (``C``) or in part (``16c``), and maps between two of them.

A layout is undefined (nothing is known), empty (a scalar), or a row of axes. The empty word is undefined, as in Relay;
an empty layout is made from no axes (:meth:`Layout.of_axes`, :meth:`Layout.sub_layout`). ``NCHW16c`` holds channel *c*
at ``C = c / 16`` and ``16c = c % 16``. Part of a layout (:meth:`Layout.sub_layout`) may have a block without its axis.
Source: ``tvm.tir.Layout``, ``tvm.tir.BijectiveLayout``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from byoc.errors import UserError
from byoc.ir.types import Any, Dim
from byoc.runtime.core.errors import UserError as LayoutWordError
from byoc.runtime.kernels.movement.layouts import NamedAxis, block_of, parse_layout, places_of

UNDEFINED = "__undef__"


def _axis_name(axis: NamedAxis) -> str:
    return axis.letter.lower() if axis.block else axis.letter


@dataclass(frozen=True)
class AxisVar:
    """The index variable of an axis: its name and dtype."""

    name: str
    dtype: str


@dataclass(frozen=True)
class LayoutAxis:
    """An axis as ``Layout.axes`` gives it."""

    var: AxisVar


class Layout:
    """The names of a tensor's axes, in order. Immutable; equal to a layout of the same name."""

    __slots__ = ("dtype", "name", "parts")

    def __init__(self, name: str = UNDEFINED, dtype: str = "int32"):
        """Raises UserError for a word that is no layout."""
        self.name, self.dtype = str(name) or UNDEFINED, dtype
        try:
            self.parts: tuple[NamedAxis, ...] = () if self.name == UNDEFINED else parse_layout(self.name)
        except LayoutWordError as error:
            raise UserError(str(error)) from error

    @classmethod
    def of_axes(cls, parts: Sequence[NamedAxis]) -> Layout:
        """The layout of these axes, among which a block may lack its axis."""
        layout = cls()
        layout.parts = tuple(parts)
        layout.name = "".join(f"{a.block or ''}{_axis_name(a)}" for a in parts)
        return layout

    @property
    def defined(self) -> bool:
        """False where nothing is known of the layout."""
        return self.name != UNDEFINED

    @property
    def axes(self) -> list[LayoutAxis]:
        """The axes with their index variables. Source: ``Layout.axes``."""
        return [LayoutAxis(AxisVar(name, self.dtype)) for name in self]

    @property
    def ndim(self) -> int:
        """The number of axes, blocks included."""
        return len(self.parts)

    @property
    def primal(self) -> list[str]:
        """The names of the whole axes, in order."""
        return [a.letter for a in self.parts if not a.block]

    @property
    def is_blocked(self) -> bool:
        """True when an axis is split."""
        return any(a.block for a in self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __bool__(self) -> bool:
        return self.defined

    def __iter__(self) -> Iterator[str]:
        return map(_axis_name, self.parts)

    def __contains__(self, axis: str) -> bool:
        return len(axis) == 1 and any(_axis_name(part) == axis for part in self.parts)

    def __getitem__(self, index: int) -> str:
        """The name of axis *index*. Raises IndexError outside the layout."""
        return _axis_name(self.parts[index])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.name == other.name

    def __hash__(self) -> int:
        return hash(("Layout", self.name))

    def __repr__(self) -> str:
        return f"Layout({self.name})"

    def index_of(self, axis: str) -> int:
        """Where *axis* stands, -1 where it does not. Source: ``Layout.index_of``."""
        names = list(self)
        return names.index(axis) if axis in names else -1

    def factor_of(self, axis: str) -> int:
        """How many elements of *axis* lie in its blocks; -1 where it is not split. Source: ``Layout.factor_of``."""
        letter = axis.upper()
        if letter not in (a.letter for a in self.parts if a.block):
            return -1
        return block_of(self.parts, letter)

    def sub_layout(self, start: int, count: int) -> Layout:
        """The layout of *count* axes from *start*; undefined beyond the end. Source: ``Layout::SubLayout``."""
        if not self.defined or start > self.ndim:
            return Layout()
        return Layout.of_axes(self.parts[start : start + count])

    def expand_primal(self, other: Layout) -> Layout:
        """The axes of *other* that are missing here, then these. Source: ``Layout::ExpandPrimal``."""
        return Layout.of_axes([*(NamedAxis(letter) for letter in other.primal if letter not in self), *self.parts])

    def split_block(self, axis: str, target: int, factor: int) -> Layout:
        """*axis* split by *factor*, its block put at *target*; unsplit axes only. Source: ``Layout::Split``.

        Raises UserError for an axis that is missing or split already, or a place outside the layout.
        """
        if axis not in self.primal or axis.lower() in self or not 0 <= target <= self.ndim or factor < 1:
            raise UserError(f"{self} cannot have {axis} split by {factor} at {target}")
        return Layout.of_axes([*self.parts[:target], NamedAxis(axis, factor), *self.parts[target:]])


class BijectiveLayout:
    """A map of shapes and indices between two layouts of the same axes. Source: ``tvm.tir.BijectiveLayout``."""

    def __init__(self, src_layout: Layout, dst_layout: Layout):
        """Raises UserError where the layouts do not have the same axes; :func:`bijective_layout` asks first."""
        if not is_convertible(src_layout, dst_layout):
            raise UserError(f"{src_layout} cannot become {dst_layout}: they do not have the same axes")
        self.src_layout, self.dst_layout = src_layout, dst_layout

    def forward_shape(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """*shape* in the other layout; a block is left unchecked, as it is said by the layout."""
        return _shape(shape, self.src_layout.parts, self.dst_layout.parts)

    def backward_shape(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """A shape of the other layout in this one."""
        return _shape(shape, self.dst_layout.parts, self.src_layout.parts)

    def forward_index(self, index: Sequence[int]) -> tuple[int, ...]:
        """Where the element at *index* stands in the other layout."""
        return _index(index, self.src_layout.parts, self.dst_layout.parts)

    def backward_index(self, index: Sequence[int]) -> tuple[int, ...]:
        """Where the element at *index* of the other layout stands in this one."""
        return _index(index, self.dst_layout.parts, self.src_layout.parts)


def is_convertible(src: Layout, dst: Layout) -> bool:
    """True when both layouts are defined, not empty, and made of the same whole axes, blocks beside them."""
    if not src.parts or not dst.parts:
        return False
    whole = set(src.primal)
    blocks = {a.letter for layout in (src, dst) for a in layout.parts if a.block}
    return whole == set(dst.primal) and blocks <= whole


def _check_rank(numbers: Sequence[object], parts: Sequence[NamedAxis]) -> None:
    if len(numbers) != len(parts):
        raise UserError(f"{tuple(numbers)} has {len(numbers)} entries where {Layout.of_axes(parts)} has {len(parts)}")


def _shape(shape: Sequence[Dim], src: Sequence[NamedAxis], dst: Sequence[NamedAxis]) -> tuple[Dim, ...]:
    _check_rank(shape, src)
    result: list[Dim] = []
    for axis in dst:
        if axis.block:
            result.append(axis.block)
            continue
        size = shape[places_of(src, axis.letter)[0]]
        before, after = block_of(src, axis.letter), block_of(dst, axis.letter)
        if not isinstance(size, Any):
            result.append(size * before // after)
        else:
            result.append(size if before == after else Any())
    return tuple(result)


def _index(index: Sequence[int], src: Sequence[NamedAxis], dst: Sequence[NamedAxis]) -> tuple[int, ...]:
    _check_rank(index, src)
    result = []
    for k, axis in enumerate(dst):
        places = places_of(src, axis.letter)
        position = index[places[0]]
        for p in places[1:]:
            position = position * src[p].block + index[p]
        targets = places_of(dst, axis.letter)
        position //= math.prod(dst[p].block for p in targets[targets.index(k) + 1 :])
        result.append(position % axis.block if axis.block else position)
    return tuple(result)


def layout(name: str, dtype: str = "int32") -> Layout:
    """The layout called *name*. Raises UserError for a word that is no layout. Source: ``tvm.tir.layout``."""
    return Layout(name, dtype)


def bijective_layout(src_layout: str | Layout, dst_layout: str | Layout) -> BijectiveLayout | None:
    """The map between two layouts, or None where they do not have the same axes. Source: ``tvm.tir``."""
    src, dst = (x if isinstance(x, Layout) else Layout(x) for x in (src_layout, dst_layout))
    return BijectiveLayout(src, dst) if is_convertible(src, dst) else None


__all__ = ["AxisVar", "BijectiveLayout", "Layout", "LayoutAxis", "bijective_layout", "is_convertible", "layout"]
