"""A region's program as primitives on memory: which descriptor each value has, and where it lies.

Values stay in the order in which the primitive that gave them wrote them; another that wants them otherwise gets a
reorder before it. What only moves (transposes, reshapes, slices) is another descriptor of the same memory where there
is one. Constants are reordered when the program is built, once for all that is built of them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from byoc.contrib.onednn.library import ANY, Desc, OnednnLibrary, Primitive
from byoc.runtime.core.ndarray import ALIGNMENT, dtype_name

SRC, SRC_1, DST, WEIGHTS, BIAS, MEAN, VARIANCE, SCALE, SHIFT = 1, 2, 17, 33, 41, 49, 50, 51, 52
SCRATCHPAD, SCALES, ZERO_POINTS, POST_SRC_1, MANY_SRC = 80, 4096, 8192, 32768, 1024
QUERY_SRC, QUERY_WEIGHTS, QUERY_DST = 0x81, 0x83, 0x85


class BufferKind(enum.Enum):
    """Whose memory a buffer is."""

    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"
    TEMPORARY = "temporary"


@dataclass(eq=False)
class TensorBuffer:
    """Memory that values share: the caller's, by its number, a constant's array, or a place that is planned."""

    kind: BufferKind
    nbytes: int
    number: int = 0
    array: np.ndarray | None = None
    first: int = -1  # the actions that use it
    last: int = -1

    def used(self, action: int) -> None:
        """An action uses it."""
        self.first = action if self.first < 0 else self.first
        self.last = max(self.last, action)


@dataclass(frozen=True)
class DnnlValue:
    """A tensor: how it lies in its buffer."""

    desc: Desc
    buffer: TensorBuffer

    @property
    def shape(self) -> tuple[int, ...]:
        return self.desc.shape

    @property
    def dtype(self) -> str:
        return self.desc.dtype

    def permuted(self, axes: Sequence[int]) -> DnnlValue:
        """The same memory with axis ``axes[k]`` as axis *k*."""
        return DnnlValue(self.desc.permuted(axes), self.buffer)


@dataclass(frozen=True)
class Action:
    """A primitive with the values that it reads and writes, by oneDNN's numbers; without one, zeros are written."""

    primitive: Primitive | None
    arguments: Mapping[int, DnnlValue]


@dataclass
class Constants:
    """The constants of a region, and what was reordered of them."""

    arrays: Sequence[np.ndarray]
    buffers: dict[int, TensorBuffer] = field(default_factory=dict)
    reordered: list[tuple[TensorBuffer, Desc, DnnlValue]] = field(default_factory=list)

    def buffer(self, number: int) -> TensorBuffer:
        """The memory of constant *number*."""
        if number not in self.buffers:
            array = np.asarray(self.arrays[number], order="C")
            self.buffers[number] = TensorBuffer(BufferKind.CONSTANT, array.nbytes, array=array)
        return self.buffers[number]

    @property
    def nbytes(self) -> int:
        """The bytes of what was reordered."""
        return sum(value.buffer.nbytes for _, _, value in self.reordered)


class Builder:
    """Collects the actions of a program, for certain sizes of its inputs."""

    def __init__(self, library: OnednnLibrary, constants: Constants):
        self.library, self.constants = library, constants
        self.actions: list[Action] = []
        self.buffers: list[TensorBuffer] = []
        self.last_reads: dict[int, int] = {}  # of values by their numbers: the step after which nobody reads them
        self.values: dict[int, DnnlValue] = {}
        self.step = 0  # the one that is being built

    # values ---------------------------------------------------------------------------------------------------------

    def given(self, kind: BufferKind, number: int, shape: Sequence[int], dtype: str) -> DnnlValue:
        """A tensor of the caller's, in the order of its axes."""
        desc = self.library.desc(shape, dtype)
        buffer = (
            self.constants.buffer(number) if kind is BufferKind.CONSTANT else TensorBuffer(kind, desc.nbytes, number)
        )
        return DnnlValue(desc, buffer)

    def array(self, array: np.ndarray) -> DnnlValue:
        """A constant that is no constant of the region."""
        desc = self.library.desc(array.shape, dtype_name(array.dtype))
        return DnnlValue(desc, TensorBuffer(BufferKind.CONSTANT, array.nbytes, array=array))

    def temporary(self, desc: Desc) -> DnnlValue:
        """A tensor that nobody has written yet."""
        buffer = TensorBuffer(BufferKind.TEMPORARY, desc.nbytes)
        self.buffers.append(buffer)
        return DnnlValue(desc, buffer)

    def plain(self, shape: Sequence[int], dtype: str) -> DnnlValue:
        """A new tensor in the order of its axes."""
        return self.temporary(self.library.desc(shape, dtype))

    def any_of(self, desc: Desc, shape: Sequence[int] | None = None) -> Desc:
        """A descriptor that leaves the order to the primitive."""
        return self.library.desc(desc.shape if shape is None else shape, desc.dtype, ANY)

    def reshaped(self, value: DnnlValue, shape: Sequence[int]) -> DnnlValue:
        """*value* under another shape: the same memory where that can be."""
        if not shape:
            shape = (1,)
        desc = value.desc.reshaped(shape)
        if desc is None:
            value = self.in_order(value)
            desc = value.desc.reshaped(shape)
            assert desc is not None, (value.shape, shape)
        return DnnlValue(desc, value.buffer)

    def in_order(self, value: DnnlValue) -> DnnlValue:
        """*value* with its elements in the order of its axes."""
        return self.to(value, self.library.desc(value.shape, value.dtype))

    def to(self, value: DnnlValue, desc: Desc) -> DnnlValue:
        """*value* as *desc* says; a reorder, unless it lies so. That of a constant is made now, and once."""
        if value.desc == desc:
            return DnnlValue(desc, value.buffer)
        if value.buffer.kind is not BufferKind.CONSTANT:
            result = self.temporary(desc)
            self.reorder(value, result)
            return result
        for buffer, source, made in self.constants.reordered:
            if buffer is value.buffer and source == value.desc and made.desc == desc:
                return made
        result = DnnlValue(desc, TensorBuffer(BufferKind.CONSTANT, desc.nbytes, array=aligned(desc.nbytes)))
        primitive = self.reordering(value.desc, desc)
        run_actions(self.library, [Action(primitive, {SRC: value, DST: result})])
        self.constants.reordered.append((value.buffer, value.desc, result))
        return result

    def reordering(self, source: Desc, target: Desc) -> Primitive:
        """The primitive that copies from one order (or dtype) to another."""
        engine = self.library.engine
        attributes = self.library.attributes().finished()
        return self.library.primitive("reorder", source, engine, target, engine, attributes)

    def reorder(self, source: DnnlValue, target: DnnlValue) -> None:
        """Copy *source* to *target*."""
        self.add(self.reordering(source.desc, target.desc), {SRC: source, DST: target})

    # actions --------------------------------------------------------------------------------------------------------

    def add(self, primitive: Primitive | None, arguments: Mapping[int, DnnlValue]) -> None:
        """Run *primitive* on these values; without one, write zeros."""
        if primitive is not None and primitive.scratchpad.nbytes:
            arguments = {**arguments, SCRATCHPAD: self.temporary(primitive.scratchpad)}
        for value in arguments.values():
            value.buffer.used(len(self.actions))
        self.actions.append(Action(primitive, arguments))

    def best(self, make: Callable[[Desc], Primitive], value: DnnlValue) -> tuple[Primitive, DnnlValue]:
        """The primitive that *make* gives for *value* as it lies, or in order where only the latter has fast code."""
        primitive = make(value.desc)
        if not is_reference(primitive) or value.desc.is_plain:
            return primitive, value
        ordered = make(self.library.desc(value.shape, value.dtype))
        return (primitive, value) if is_reference(ordered) else (ordered, self.in_order(value))

    def is_free_after(self, value: DnnlValue, step: int) -> bool:
        """Whether nobody reads the memory of *value* after *step*, so that its reader may write there."""
        if value.buffer.kind is not BufferKind.TEMPORARY:
            return False
        sharing = [number for number, other in self.values.items() if other.buffer is value.buffer]
        return all(self.last_reads.get(number, step) <= step for number in sharing)


def is_reference(primitive: Primitive) -> bool:
    """Whether it is oneDNN's plain code, which is there to be right and not to be fast."""
    return primitive.name.startswith("ref")


def aligned(nbytes: int) -> np.ndarray:
    """Memory at the beginning of a line of the cache."""
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + nbytes]


def address(array: np.ndarray) -> int:
    """Where the elements of *array* begin."""
    return int(array.__array_interface__["data"][0])


def run_actions(library: OnednnLibrary, actions: Sequence[Action]) -> None:
    """Run actions whose values all have arrays, once."""
    stream = library.stream()
    library.share_processors()
    for action in actions:
        assert action.primitive is not None
        arguments = [memory_of(library, number, value) for number, value in action.arguments.items()]
        pads = action.primitive.scratchpad
        pad = aligned(pads.nbytes)
        arguments.append(
            memory_of(library, SCRATCHPAD, DnnlValue(pads, TensorBuffer(BufferKind.TEMPORARY, pads.nbytes, array=pad)))
        )
        status = library.lib.dnnl_primitive_execute(action.primitive.pointer, stream, len(arguments), arguments)
        library.check(status, "a reorder")
    library.check(library.lib.dnnl_stream_wait(stream), "a reorder")


def memory_of(library: OnednnLibrary, number: int, value: DnnlValue) -> tuple[int, Any]:
    """An argument of a primitive: its number, and a memory object of *value*, whose array is known."""
    array = value.buffer.array
    handle = library.ffi.NULL if array is None else library.ffi.cast("void *", address(array))
    create = library.lib.dnnl_memory_create
    return (number, library.new("dnnl_memory_t", create, value.desc.pointer, library.engine, handle))
