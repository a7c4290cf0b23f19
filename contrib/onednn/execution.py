"""A program for certain sizes: its primitives with a plan of their memory, and what one call of it needs for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from byoc.contrib.onednn.building import (
    Action,
    BufferKind,
    Builder,
    Constants,
    DnnlValue,
    TensorBuffer,
    address,
    aligned,
)
from byoc.contrib.onednn.fusing import Chain, chains_of
from byoc.contrib.onednn.library import OnednnLibrary
from byoc.contrib.onednn.steps import Behind, DnnlStep, build
from byoc.contrib.onednn.table import BUILDERS
from byoc.contrib.region_program import RegionProgram
from byoc.runtime.core.errors import KernelError
from byoc.runtime.core.ndarray import ALIGNMENT
from byoc.runtime.core.signature import Signature, TensorSpec

assert BUILDERS  # the families of operators, which register themselves


class PrimitivePlan:
    """What is computed for certain sizes: primitives, and where in one memory their temporary values lie."""

    def __init__(
        self,
        library: OnednnLibrary,
        program: RegionProgram,
        signature: Signature,
        constants: Constants,
        sizes: Mapping[str, int],
    ):
        """Raises Unimplemented where oneDNN has no primitive for a step."""
        self.library, self.symbol, self.threads = library, signature.symbol, library.threads
        library.share_processors()  # for as many as which code is made
        builder = Builder(library, constants)
        shapes = [(s.concrete_shape(sizes), s.dtype) for s in signature.inputs]
        values = [builder.given(BufferKind.INPUT, k, *given) for k, given in enumerate(shapes)]
        shapes = [(s.concrete_shape({}), s.dtype) for s in signature.constants]
        values += [builder.given(BufferKind.CONSTANT, k, *given) for k, given in enumerate(shapes)]
        builder.values = dict(enumerate(values))
        chains = chains_of(program)
        builder.last_reads = {number: k for k, chain in enumerate(chains) for number in chain.reads}
        builder.last_reads |= dict.fromkeys(program["outputs"], len(chains))
        for builder.step, chain in enumerate(chains):
            self._build(builder, chain, sizes)
        for k, number in enumerate(program["outputs"]):
            _give(builder, builder.values[number], k, signature.outputs[k], sizes)
        self.actions = builder.actions
        self.offsets, self.nbytes = _placed(builder.buffers)

    def _build(self, builder: Builder, chain: Chain, sizes: Mapping[str, int]) -> None:
        """Add the actions of *chain* and keep its values."""
        written = chain.step
        specs = [TensorSpec(r["name"], tuple(r["shape"]), r["dtype"]) for r in written["results"]]
        shapes = [spec.concrete_shape(sizes) for spec in specs]
        behind = [
            Behind(post.operator, post.attributes, None if post.operand is None else builder.values[post.operand])
            for post in chain.posts
        ]
        step = DnnlStep(written["operator"], written["attributes"], shapes, [spec.dtype for spec in specs], behind)
        made = build(builder, step, [builder.values[number] for number in written["arguments"]])
        for number, value, shape in zip(chain.results, made, shapes, strict=True):
            if value.shape != (shape or (1,)):
                raise KernelError(f"{self.symbol}: {step.operator} gave {list(value.shape)}, expected {list(shape)}")
            builder.values[number] = value


def _give(builder: Builder, value: DnnlValue, number: int, spec: TensorSpec, sizes: Mapping[str, int]) -> None:
    """Have *value* stand in output *number*: it is written there at once where it lies as outputs do, else copied."""
    shape = spec.concrete_shape(sizes)
    if 0 in shape:
        return
    buffer = value.buffer
    if buffer.kind is BufferKind.TEMPORARY and value.desc.is_plain and value.desc.nbytes == buffer.nbytes:
        buffer.kind, buffer.number = BufferKind.OUTPUT, number
        return
    builder.reorder(value, builder.given(BufferKind.OUTPUT, number, value.shape, spec.dtype))


def _placed(buffers: Sequence[TensorBuffer]) -> tuple[dict[TensorBuffer, int], int]:
    """Where each temporary buffer begins, and the bytes of all: large ones first, each at the lowest place that is free
    while it is used.
    """
    placed: list[tuple[int, int, TensorBuffer]] = []
    waiting = [b for b in buffers if b.kind is BufferKind.TEMPORARY and b.last >= 0]
    for buffer in sorted(waiting, key=lambda b: -b.nbytes):
        begin = 0
        for start, end, other in sorted(placed, key=lambda p: p[0]):
            apart = other.last < buffer.first or buffer.last < other.first
            if not apart and start < begin + buffer.nbytes and begin < end:
                begin = end
        end = begin + -(-max(buffer.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        placed.append((begin, end, buffer))
    return {buffer: begin for begin, _, buffer in placed}, max((end for _, end, _ in placed), default=0)


class Execution:
    """What one call of a plan needs for itself: memory for temporary values, and a queue."""

    def __init__(self, plan: PrimitivePlan):
        self.plan, self.library = plan, plan.library
        self.memory = aligned(plan.nbytes)
        self.stream = self.library.stream()
        self.outside: list[tuple[Any, TensorBuffer]] = []  # memory objects of the caller's arrays
        self.calls = [self._prepared(action) for action in plan.actions]

    def _prepared(self, action: Action) -> tuple[Any, Any, int, Action]:
        """A primitive with its arguments as C has them."""
        library = self.library
        if action.primitive is None:
            return (None, None, 0, action)
        arguments = []
        for number, value in action.arguments.items():
            handle = self._handle(value.buffer)
            create = library.lib.dnnl_memory_create
            memory = library.new("dnnl_memory_t", create, value.desc.pointer, library.engine, handle)
            if value.buffer.kind in (BufferKind.INPUT, BufferKind.OUTPUT):
                self.outside.append((memory, value.buffer))
            arguments.append((number, memory))
        array = library.ffi.new("dnnl_exec_arg_t[]", arguments)
        self._kept = [*getattr(self, "_kept", ()), arguments]  # the array holds pointers alone
        return (action.primitive.pointer, array, len(arguments), action)

    def _handle(self, buffer: TensorBuffer) -> Any:
        """Where *buffer* lies; of the caller's arrays nothing is known yet."""
        ffi = self.library.ffi
        if buffer.array is not None:
            return ffi.cast("void *", address(buffer.array))
        if buffer in self.plan.offsets:
            return ffi.cast("void *", address(self.memory) + self.plan.offsets[buffer])
        return ffi.NULL

    def run(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Compute *outputs*, all of them in the order of their axes without gaps. Raises DeviceError."""
        library, ffi = self.library, self.library.ffi
        places = {BufferKind.INPUT: [address(a) for a in inputs], BufferKind.OUTPUT: [address(a) for a in outputs]}
        for memory, buffer in self.outside:
            pointer = ffi.cast("void *", places[buffer.kind][buffer.number])
            library.check(library.lib.dnnl_memory_set_data_handle(memory, pointer), "a tensor")
        library.share_processors()
        for primitive, arguments, count, action in self.calls:
            if primitive is None:
                self._zero(action, outputs)
                continue
            status = library.lib.dnnl_primitive_execute(primitive, self.stream, count, arguments)
            if status:
                library.check(status, f"{self.plan.symbol}: {action.primitive.name if action.primitive else ''}")
        library.check(library.lib.dnnl_stream_wait(self.stream), self.plan.symbol)

    def _zero(self, action: Action, outputs: Sequence[np.ndarray]) -> None:
        for value in action.arguments.values():
            buffer = value.buffer
            if buffer.kind is BufferKind.OUTPUT:
                outputs[buffer.number].fill(0)
            else:
                begin = self.plan.offsets[buffer]
                self.memory[begin : begin + buffer.nbytes] = 0
