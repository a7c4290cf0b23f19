"""The places of OpenCL's kernels, and what a region at one is compiled with.

``opencl/any/any`` takes tensors as they come, in the memory that the mode says. At ``fp16`` the operands of products
are held as halves, with sums in float32; a device without ``cl_khr_fp16`` computes in float32 what it reads. ``NCHW``
is buffers, ``ImageDefault`` images of four channels a texel, for the tensors inside a region that have one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.codegen.opencl.device.options import HALVES, OpenCLOptions
from byoc.codegen.opencl.images.choice import AUTO, BUFFER, IMAGE
from byoc.errors import DeviceError, UserError
from byoc.runtime.opencl.devices import open_device

NAME = "opencl"
PRECISIONS = ("float", "fp16")
ANYWHERE = f"{NAME}/any/any"
LAYOUTS = {"NCHW": BUFFER, "ImageDefault": IMAGE}


def opencl_places() -> tuple[str, ...]:
    """As they come, then each precision in buffers and, where the device has them, in images."""
    layouts = [name for name, memory in LAYOUTS.items() if memory == BUFFER or why_no_images() is None]
    return (ANYWHERE, *(f"{NAME}/{p}/{layout}" for layout in layouts for p in PRECISIONS))


def why_no_images() -> str | None:
    """Why nothing can be an image here; None where something can, or where no device is here to ask."""
    try:
        info = open_device().info
    except DeviceError:
        return None
    return None if info.image_width else f"the device {info.name} has no images"


def why_not_at(place: str) -> str | None:
    """Why there is no kernel at *place*: a clause."""
    _, precision, layout = place.split("/")[:3]
    if precision not in (*PRECISIONS, "any"):
        return f"its kernels hold floats as {' or '.join(PRECISIONS)}, and other numbers as they are"
    if layout not in (*LAYOUTS, "any"):
        return f"its tensors lie as {' or '.join(LAYOUTS)}"
    return why_no_images() if LAYOUTS.get(layout) == IMAGE else None


def options_at(places: Sequence[str], options: Mapping[str, object]) -> Mapping[str, object]:
    """*options* with the memory and the precision that *places* name.

    Raises UserError where they name two, and where the mode says another memory.
    """
    exact = [p for p in places if p != ANYWHERE]
    if not exact:
        return options
    kinds = {tuple(p.split("/")[1:3]) for p in exact}
    if len(kinds) > 1 or len(exact) != len(places):
        raise UserError(
            f"{NAME}: the plan has the places {' and '.join(places)}, and all regions of a target hold their tensors "
            "alike: ask for one of them"
        )
    ((precision, layout),) = kinds
    memory, chosen = LAYOUTS[layout], OpenCLOptions.of(options)
    if chosen.mode.memory not in (AUTO, memory):
        raise UserError(
            f"{NAME}.mode: memory is {chosen.mode.memory}, and the plan has the place {exact[0]}: leave one of them out"
        )
    words = (chosen.mode.text(), f"memory={memory}" if chosen.mode.memory == AUTO else "")
    made = {**options, "mode": ",".join(filter(None, words))}
    return {**made, "half": "memory"} if precision == "fp16" and _stores_halves(chosen) else made


def _stores_halves(chosen: OpenCLOptions) -> bool:
    """Whether halves are to lie in memory alone, since the device does not compute with them."""
    try:
        return chosen.half == HALVES[0] and not open_device().info.has_float16
    except DeviceError:
        return chosen.half == HALVES[0]
