"""The device's memory of one function: a few pieces, in which the buffers of a call lie by their lifetimes.

Inputs, outputs and temporaries are parts of these pieces, and two share bytes where no launch needs both
(``graph/memory_plan.py``). Calls follow each other in one queue, so that those with other sizes use the same pieces,
which grow with the largest. Constants and what a caller keeps on the device have memory of their own. An image is no
part of a piece: it is allocated by itself, and another of its size that no launch needs with it is the same one.
A buffer that a launch takes whole has a piece to itself while it is needed.

A kernel is given a piece and the offset of a part. OpenCL's sub-buffers would spare it the offset, but a launch with
sub-buffers that overlap costs NVIDIA's driver 81 microseconds, with any others 4 (H100, 75 kernels).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING

from byoc.runtime.core.errors import DeviceMemoryError
from byoc.runtime.core.ndarray import ALIGNMENT
from byoc.runtime.graph.memory_plan import Lifetime, largest_live_bytes, plan_memory
from byoc.runtime.opencl.counts import DeviceCounts
from byoc.runtime.opencl.devices import OpenDevice
from byoc.runtime.opencl.images import ImageSize, new_image
from byoc.runtime.opencl.launches import FunctionPlan

if TYPE_CHECKING:
    import pyopencl

BITS_OF_A_BYTE = 8
SMALLEST = 256  # bytes of a block that is kept for tensors of about its size
CHECKING_PLATFORM = "Oclgrind"  # looks at the ends of whole buffers alone


def capacity_of(nbytes: int) -> int:
    """The bytes of the block for a tensor of *nbytes*: at most a quarter more, so that one that grows finds it again.

    >>> [capacity_of(n) for n in (1, 257, 1000, 1025)]
    [256, 512, 1024, 1280]
    """
    step = max(SMALLEST, 1 << max(max(nbytes, 1).bit_length() - 3, 0))
    return -(-max(nbytes, 1) // step) * step


@dataclass(frozen=True)
class BufferPlace:
    """Where a buffer lies: the number of its piece, the offset there, and its bytes."""

    piece: int
    offset: int
    size: int


@dataclass(frozen=True)
class BufferPlacement:
    """The bytes of each piece, the place of each buffer by its number, and the bytes that no plan can do without.

    ``images`` are those to allocate, and ``image_of`` which of them a buffer is, for those that are images.
    """

    pieces: tuple[int, ...]
    places: Mapping[int, BufferPlace]
    bound: int
    images: tuple[ImageSize, ...] = ()
    image_of: Mapping[int, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The bytes of all pieces and images."""
        return sum(self.pieces) + sum(image.bytes for image in self.images)


def place_buffers(
    plan: FunctionPlan, sizes: Sequence[int], alignment: int, largest: int = 0, without: Collection[int] = ()
) -> BufferPlacement:
    """Place the buffers of *plan* with these *sizes*, but its constants, in pieces of at most *largest* bytes.

    Args:
        plan: what launches use which buffer, and so how long each is needed.
        sizes: the bytes of each buffer.
        alignment: of the beginning of a buffer, a multiple of the arena's alignment.
        largest: what the device gives in one piece; 0 for any number.
        without: the numbers of buffers that lie elsewhere.

    Raises:
        DeviceMemoryError: a buffer is larger than a piece.
    """
    images = plan.images
    everything = {k: life for k, life in lifetimes(plan).items() if k not in without}
    rounded = {k: -(-max(sizes[k], 1) // alignment) * alignment for k in everything if k not in images}
    whole = {k: everything[k] for k in rounded if k in plan.whole}
    lives = {k: everything[k] for k in rounded if k not in whole}
    piece = largest // alignment * alignment
    if largest and max(rounded.values(), default=0) > piece:
        raise DeviceMemoryError(f"a buffer of {max(rounded.values())} bytes, and at most {piece} can be had in one")
    found = plan_memory([Lifetime(rounded[k], *life) for k, life in lives.items()], piece)
    bound = largest_live_bytes([Lifetime(sizes[k], *life) for k, life in everything.items()])
    piece = piece or found.total or 1
    places = {
        k: BufferPlace(offset // piece, offset % piece, max(sizes[k], 1))
        for k, offset in zip(lives, found.offsets, strict=True)
    }
    ends = [0] * -(-found.total // piece)
    for k, place in places.items():
        ends[place.piece] = max(ends[place.piece], place.offset + rounded[k])
    for slot in _in_turn(whole):
        places.update({k: BufferPlace(len(ends), 0, max(sizes[k], 1)) for k in slot})
        ends.append(max(rounded[k] for k in slot))
    own, image_of = place_images(images, everything)
    return BufferPlacement(tuple(ends), places, bound, own, image_of)


def _in_turn(lives: Mapping[int, tuple[int, int]]) -> list[list[int]]:
    """Those that are needed by *lives*, in lists of which each holds such as are needed one after the other."""
    found: list[list[int]] = []
    for k in sorted(lives, key=lambda k: (lives[k], k)):
        free = next((slot for slot in found if lives[slot[-1]][1] < lives[k][0]), None)
        if free is None:
            found.append([k])
        else:
            free.append(k)
    return found


def place_images(
    images: Mapping[int, ImageSize], lives: Mapping[int, tuple[int, int]]
) -> tuple[tuple[ImageSize, ...], dict[int, int]]:
    """The images to allocate, and the number of the one for each of *images*, by *lives*, when each is needed.

    Two of one size are one where the second is first needed after the last launch that needs the first.
    """
    made: list[ImageSize] = []
    free_after: list[int] = []
    found: dict[int, int] = {}
    for k in sorted((k for k in images if k in lives), key=lambda k: (lives[k], k)):
        first, last = lives[k]
        slot = next((s for s, size in enumerate(made) if size == images[k] and free_after[s] < first), len(made))
        if slot == len(made):
            made.append(images[k])
            free_after.append(last)
        free_after[slot] = last
        found[k] = slot
    return tuple(made), found


def lifetimes(plan: FunctionPlan) -> dict[int, tuple[int, int]]:
    """The first and the last launch that needs each buffer but the constants.

    An input is there before the first, an output until after the last, also where no launch uses it.
    """
    count = len(plan.launches)
    lives = dict.fromkeys(range(plan.first_constant), (0, 0))
    lives.update(
        dict.fromkeys(range(plan.first_output, plan.first_output + len(plan.signature.outputs)), (count, count))
    )
    for step, launch in enumerate(plan.launches):
        for buffer in launch.buffers:
            if not plan.first_constant <= buffer < plan.first_output:
                first, last = lives.get(buffer, (step, step))
                lives[buffer] = min(first, step), max(last, step)
    return lives


@dataclass(frozen=True)
class TensorPart:
    """Where a tensor lies: in *buffer*, from byte *offset* on, a multiple of the arena's alignment."""

    buffer: pyopencl.MemoryObject
    offset: int = 0

    @property
    def step(self) -> int:
        """The offset as kernels are given it: in units of :data:`ALIGNMENT`."""
        return self.offset // ALIGNMENT


class FunctionMemory:
    """The pieces that one function has on its device, and the buffers that lie in them."""

    def __init__(self, cl: ModuleType, opened: OpenDevice, counts: DeviceCounts):
        device = opened.device
        self._cl, self._opened, self._counts = cl, opened, counts
        self.alignment = max(ALIGNMENT, device.mem_base_addr_align // BITS_OF_A_BYTE)
        self.largest = min(device.max_mem_alloc_size, opened.info.global_memory)
        self._pieces: list[pyopencl.Buffer] = []
        self._images: list[tuple[ImageSize, pyopencl.Image]] = []

    def buffers(
        self, plan: FunctionPlan, sizes: Sequence[int], given: Mapping[int, pyopencl.Buffer]
    ) -> Mapping[int, TensorPart]:
        """Where the buffers of *plan* lie, by number, all but its constants and those that are *given*.

        Raises DeviceMemoryError, pyopencl's error, DeviceError for images that the device cannot have.
        """
        if self._opened.info.platform == CHECKING_PLATFORM:
            images = plan.images
            own = [k for k in lifetimes(plan) if k not in given]
            return {k: TensorPart(self.image(images[k]) if k in images else self.allocate(sizes[k])) for k in own}
        placement = place_buffers(plan, sizes, self.alignment, self.largest, given)
        for k, size in enumerate(placement.pieces):
            if k == len(self._pieces):
                self._pieces.append(self.allocate(size))
            elif self._pieces[k].size < size:
                self._pieces[k] = self.allocate(size)
        found = {k: TensorPart(self._pieces[place.piece], place.offset) for k, place in placement.places.items()}
        return {**found, **self._placed_images(placement)}

    def _placed_images(self, placement: BufferPlacement) -> Mapping[int, TensorPart]:
        """The images of a placement, those of an earlier one where they are of the same sizes."""
        left = list(self._images)
        chosen: list[TensorPart] = []
        for size in placement.images:
            kept = next((item for item in left if item[0] == size), None)
            if kept is None:
                kept = (size, self.image(size))
                self._images.append(kept)
            else:
                left.remove(kept)
            chosen.append(TensorPart(kept[1]))
        return {k: chosen[slot] for k, slot in placement.image_of.items()}

    def image(self, size: ImageSize, read_only: bool = False) -> pyopencl.Image:
        """An image of *size*. Raises DeviceError where the device cannot have it, pyopencl's error for no memory."""
        made = new_image(self._cl, self._opened, size, read_only)
        self._counts.allocations += 1
        self._counts.allocated_bytes += size.bytes
        return made

    def allocate(self, count: int, flags: int | None = None) -> pyopencl.Buffer:
        """Memory of *count* bytes; of one where there is nothing to hold, since no buffer is empty.

        Raises DeviceMemoryError for more than the device gives in one piece, pyopencl's error for what it has not.
        """
        made: Callable[..., pyopencl.Buffer] = self._cl.Buffer
        kind = self._cl.mem_flags.READ_WRITE if flags is None else flags
        if count > self.largest:
            raise DeviceMemoryError(f"a buffer of {count} bytes, and at most {self.largest} can be had in one")
        buffer = made(self._opened.context, kind, max(count, 1))
        self._counts.allocations += 1
        self._counts.allocated_bytes += max(count, 1)
        return buffer
