"""Which tensors of a function are images, and why the others are buffers, in words.

Inputs and outputs are the arrays of a caller, and stay buffers: kernels read and fill them as they are, an output that
is made of images four channels a work-item too. Constants that such a kernel reads and intermediate results are images
where they have one (``runtime/opencl/images.py``), where the device takes images of their size, and where the kernel
that fills them writes whole texels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.codegen.kernel.program import Program
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.images.coordinates import ImageTensors
from byoc.codegen.opencl.images.reading import BITS
from byoc.runtime.opencl.images import ImageSize
from byoc.te import Tensor
from byoc.te.expr import Intrinsic
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, unique_nodes

MOST_NAMED = 3  # tensors of one reason
BUFFER, IMAGE, TRIAL, AUTO = "buffer", "image", "trial", "auto"


@dataclass(frozen=True)
class ChosenImages:
    """The images among the tensors of a function, the stages that are filled *by_texels*, and *notes* on the others."""

    sizes: ImageTensors = field(default_factory=dict)
    by_texels: Collection[Tensor] = ()
    notes: tuple[str, ...] = ()


def choose_images(program: Program, by_texels: Collection[Tensor], profile: DeviceProfile) -> ChosenImages:
    """The images of *program*, of whose stages those in *by_texels* may be filled texel by texel."""
    choice = _Choice(program, profile)
    stages = [s for g in program.groups for s in g.stages if s not in program.outputs]
    found: dict[Tensor, ImageSize] = {}
    refused: dict[str, list[str]] = {}
    for stage in stages:
        why = choice.why_not(stage)
        if why is None and stage not in by_texels:
            why = "the kernel that fills it writes element by element, with what a work-group shares"
        _note(stage, why, choice, found, refused)
    of_images = [s for s in stages if s in found]
    results = [s for s in program.outputs if s in by_texels and choice.size(s) is not None]
    filled = [*of_images, *(s for s in results if any(t in found for t in loaded_tensors(s.element)))]
    read = {t for s in filled for t in loaded_tensors(s.element)}
    constants = [t for t, _ in program.constants]
    for constant in constants:
        why = choice.why_not(constant)
        if why is None and constant not in read:
            why = "no kernel that computes four channels a work-item reads it"
        _note(constant, why, choice, found, refused)
    counted = f"{len(of_images)} of {len(stages)} intermediate results and {len(found) - len(of_images)} of "
    notes = [f"memory=image: {counted}{len(constants)} constants are images"]
    for why, names in refused.items():
        notes.append(f"{_named(names)} {'is a buffer' if len(names) == 1 else 'are buffers'}: {why}")
    return ChosenImages(found, frozenset(filled), tuple(notes))


def _note(
    tensor: Tensor, why: str | None, choice: _Choice, found: dict[Tensor, ImageSize], refused: dict[str, list[str]]
) -> None:
    size = choice.size(tensor)
    if why is None and size is not None:
        found[tensor] = size
    else:
        refused.setdefault(str(why), []).append(choice.name(tensor))


def _named(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


class _Choice:
    def __init__(self, program: Program, profile: DeviceProfile):
        self.profile = profile
        self.origins: Mapping[Tensor, str] = {
            s: ", ".join(g.origin[:MOST_NAMED]) for g in program.groups for s in g.stages if g.origin
        }
        stages = [s for g in program.groups for s in g.stages]
        nodes = [n for s in stages for n in unique_nodes(s.element)]
        self.words = {n.tensor for n in nodes if isinstance(n, Load) and n.is_word}
        self.halves = set(_halves(stages))

    def name(self, tensor: Tensor) -> str:
        """What notes call *tensor*: with the ONNX nodes that it comes from."""
        origin = self.origins.get(tensor)
        return f"{tensor.name} of {origin}" if origin else tensor.name

    def size(self, tensor: Tensor) -> ImageSize | None:
        """The image of *tensor*, whatever the device takes; None where it has none."""
        dtype = "float16" if tensor in self.halves else tensor.dtype
        shape = [d for d in tensor.shape if isinstance(d, int)]
        return ImageSize.of(shape, dtype) if len(shape) == len(tensor.shape) else None

    def why_not(self, tensor: Tensor) -> str | None:
        """Why *tensor* can be no image here; None where it can."""
        if not all(isinstance(d, int) for d in tensor.shape):
            return "its sizes are known when the model runs, and images have sizes of their own"
        size = self.size(tensor)
        if size is None and tensor.dtype not in ("float32", "float16"):
            return f"it holds {tensor.dtype}, and images hold float32 and float16"
        if size is None or tensor in self.words:
            return "an image has one to four dimensions and is read by numbers"
        return size.beyond(self.profile.image_width, self.profile.image_height)


def _halves(stages: Sequence[Tensor]) -> Iterator[Tensor]:
    """The tensors of bits that are halves: they are filled by, or read for, a conversion."""
    for stage in stages:
        body = stage.element
        if stage.dtype == BITS and isinstance(body, Intrinsic) and body.name == "to_float16":
            yield stage
        for node in unique_nodes(body):
            if isinstance(node, Intrinsic) and node.name == "from_float16" and isinstance(node.args[0], Load):
                yield node.args[0].tensor
