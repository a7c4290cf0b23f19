"""The plan of the launches of a program as data, from its kernels as they were written (``emit.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.program import Group, Program
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, product
from byoc.codegen.opencl.images.choice import ChosenImages
from byoc.codegen.opencl.images.coordinates import ImageTensors
from byoc.codegen.opencl.work import counted_work
from byoc.errors import InternalError, UnsupportedError
from byoc.ir.types import dtype_bytes
from byoc.runtime.opencl.launches import Bound, Buffer, FunctionPlan, KernelWork, Launch, Variant
from byoc.runtime.opencl.numbers import Number
from byoc.te import Dimension, Size, Tensor, binary
from byoc.te.expr import Binary, Const


@dataclass(frozen=True)
class WrittenKernels:
    """The kernels of a stage, or of several, by name, with their text, what they read and fill, and their sizes.

    ``checks`` says that they check indices; ``nodes`` are the ONNX nodes of its group.
    """

    kernels: tuple[tuple[str, KernelPlan], ...]
    text: str
    sources: tuple[Tensor, ...]
    targets: tuple[Tensor, ...]
    sizes: tuple[str, ...]
    checks: bool
    nodes: tuple[str, ...]
    stages: tuple[Tensor, ...]
    work: KernelWork | None = None


@dataclass(frozen=True)
class WrittenProgram:
    """The kernels of one program, which of its tensors are images, and in whose memory those lie that are views."""

    stages: Sequence[WrittenKernels]
    images: ChosenImages
    places: Mapping[Tensor, Tensor]


def number(value: Dimension) -> Number:
    """A size expression as data. Raises UnsupportedError for one that is no arithmetic on sizes."""
    if isinstance(value, int):
        return value
    if isinstance(value, Const):
        return int(value.value)
    if isinstance(value, Size):
        return value.name
    if isinstance(value, Binary):
        return [value.op, number(value.left), number(value.right)]
    raise UnsupportedError(f"a size of a buffer is arithmetic on named sizes, got a {type(value).__name__}")


def function_plan(program: Program, written: WrittenProgram) -> FunctionPlan:
    """The buffers and launches of *program*. Raises InternalError where no kernel fills one of its outputs."""
    images = written.images.sizes
    simplify = Simplifier()
    inputs, constants = program.inputs, tuple(t for t, _ in program.constants)
    numbers = {t: k for k, t in enumerate((*inputs, *constants, *program.outputs))}
    buffers = [_buffer(t, images, simplify) for t in numbers]
    launches: list[Launch] = []
    filled = {written.places.get(t, t) for stage in written.stages for t in stage.targets}
    for spec, output in zip(program.signature.outputs, program.outputs, strict=True):
        if output not in filled:
            raise InternalError(f"{program.signature.symbol}: no kernel fills the output {spec.name}")
    for stage in written.stages:
        used_tensors = [written.places.get(t, t) for t in (*stage.sources, *stage.targets)]
        for target in (t for t in used_tensors if t not in numbers):
            numbers[target] = len(buffers)
            buffers.append(_buffer(target, images, simplify))
        used = tuple(numbers[t] for t in used_tensors)
        variants = tuple(_variant(name, plan, simplify) for name, plan in stage.kernels)
        launches.append(Launch(used, stage.sizes, variants, stage.checks, stage.nodes, stage.work))
    return FunctionPlan(program.signature, tuple(buffers), tuple(launches), written.images.notes)


def launch_work(
    group: Group, stages: Sequence[Tensor], sources: Sequence[Tensor], targets: Sequence[Tensor], simplify: Simplifier
) -> KernelWork | None:
    """What the launch that computes *stages* has to do, for profiles."""
    found = counted_work(stages, sources, targets, simplify)
    if found is None:
        return None
    return KernelWork(number(found.operations), number(found.bytes), found.dtype, group.operators)


def _buffer(tensor: Tensor, images: ImageTensors, simplify: Simplifier) -> Buffer:
    if tensor in images:
        return Buffer.of_image(images[tensor])
    return Buffer(number(simplify(binary("mul", product(tensor.shape), as_index(dtype_bytes(tensor.dtype))))))


def _variant(name: str, plan: KernelPlan, simplify: Simplifier) -> Variant:
    when = tuple(Bound(number(r.number), r.least, r.most) for r in plan.when)
    local = plan.local if plan.items is None else plan.items
    return Variant(plan.schedule, name, number(simplify(plan.extent)), local, plan.groups, when, plan.items is not None)
