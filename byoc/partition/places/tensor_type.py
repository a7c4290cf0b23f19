"""The type of a tensor as kernels declare it: where it lies, in what precision and layout, and what kind it is.

Two types fit where nothing must be done for one to be read as the other (``lite/core/type_system.h:177-240``): targets
that share the host's memory fit one another, ``any`` fits every precision, and every layout but the images', which are
objects of another sort. Layouts of buffers speak of four axes: they are the same for a tensor of another rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from byoc.partition.place import ANY, BUFFERS, HOST, IMAGES, DataLayout, Place, Precision, in_host_memory

LAYOUT_RANK = 4


@dataclass(frozen=True, order=True)
class TensorTy(Place):
    """The type of an input or output: a place for its tensor. *kind*: ``Tensor``, ``TensorList``, ``StepScopes``."""

    kind: str = "Tensor"

    if TYPE_CHECKING:  # as that of Place

        def __init__(
            self,
            target: str,
            precision: Precision | str = Precision.FLOAT,
            layout: DataLayout | str = DataLayout.NCHW,
            device: int = 0,
            kind: str = "Tensor",
        ): ...

    @staticmethod
    def at(place: Place, kind: str = "Tensor") -> TensorTy:
        """The type of a tensor that lies at *place*."""
        return TensorTy(place.target, place.precision, place.layout, place.device, kind)

    def __str__(self) -> str:
        text = Place.__str__(self)
        return text if self.kind == "Tensor" else f"{self.kind}({text})"


def space_of(ty: Place) -> tuple[str, int]:
    """The memory in which a tensor lies: that of the host, of whichever target, or of a device."""
    return (HOST, 0) if in_host_memory(ty.target) else (ty.target, ty.device)


def fits(given: TensorTy, wanted: TensorTy, rank: int = LAYOUT_RANK) -> bool:
    """Whether a tensor of type *given* is read as *wanted* without a cast."""
    return not conflicts(given, wanted, rank)


def conflicts(given: TensorTy, wanted: TensorTy, rank: int = LAYOUT_RANK) -> tuple[str, ...]:
    """In which of ``kind``, ``target``, ``precision`` and ``layout`` a tensor of type *given* is not *wanted*."""
    found = []
    if given.kind != wanted.kind:
        found.append("kind")
    if ANY not in (given.target, wanted.target) and space_of(given) != space_of(wanted):
        found.append("target")
    if Precision.ANY not in (given.precision, wanted.precision) and given.precision != wanted.precision:
        found.append("precision")
    if not _layouts_fit(given.layout, wanted.layout, rank):
        found.append("layout")
    return tuple(found)


def _layouts_fit(a: DataLayout, b: DataLayout, rank: int) -> bool:
    if a == b:
        return True
    if a in IMAGES or b in IMAGES:
        return False
    return DataLayout.ANY in (a, b) or rank != LAYOUT_RANK


def settled(wanted: TensorTy, given: TensorTy, rank: int = LAYOUT_RANK) -> tuple[TensorTy, ...]:
    """As what a tensor of type *given* may be read where *wanted* is asked: its ``any`` filled in, the nearest first.

    Target and precision are as the tensor has them; every layout of buffers will do, that of *given* first (NCHW where
    it is an image), since a layout changes no number.
    """
    if ANY not in (wanted.target, wanted.precision, wanted.layout) and rank == LAYOUT_RANK:
        return (wanted,)
    target, device = (given.target, given.device) if wanted.target == ANY else (wanted.target, wanted.device)
    precision = given.precision if wanted.precision == Precision.ANY else wanted.precision
    nearest = replace(wanted, target=target, device=device, precision=precision)
    if wanted.layout == DataLayout.ANY:
        layouts = dict.fromkeys((DataLayout.NCHW if given.layout in IMAGES else given.layout, *BUFFERS))
        return tuple(replace(nearest, layout=layout) for layout in layouts)
    if rank != LAYOUT_RANK and wanted.layout not in IMAGES and given.layout not in IMAGES:
        return (replace(nearest, layout=given.layout),)
    return (nearest,)
