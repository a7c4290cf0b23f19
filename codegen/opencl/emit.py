"""OpenCL C from Programs: a kernel a stage, or several for free sizes, and per symbol the plan of its launches as data.

The source is the same text whenever it is made for the same programs. A plan names buffers by number: inputs,
constants, temporaries, outputs. A number that depends on the sizes of a call is written as ``12``, ``"N"`` or
``["mul", "N", 12]`` (``add sub mul div mod min max``; ``div`` rounds down), and evaluated by
``byoc.runtime.opencl.plan``, whose docstring gives the whole format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.expr_text import ExprWriter, outside_name
from byoc.codegen.kernel.names import Names, comment_text
from byoc.codegen.kernel.program import Group, Program
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.kernel.spelling import short_name
from byoc.codegen.kernel.stored_types import as_stored
from byoc.codegen.kernel.writer import Writer
from byoc.codegen.opencl.kernel_plan import KernelPlan, product
from byoc.codegen.opencl.language import OPENCL_C, RESERVED, SUPPORT, TYPES
from byoc.codegen.opencl.padding import read_through_padding
from byoc.codegen.opencl.products.split import split_sums
from byoc.codegen.opencl.profile import ANY_GPU, DeviceProfile
from byoc.codegen.opencl.schedule import index_type, schedule_stage
from byoc.codegen.opencl.statements import LOCAL_SIZE, KernelWriter
from byoc.errors import UnsupportedError
from byoc.ir.types import dtype_bytes
from byoc.runtime.opencl.plan import Bound, Buffer, FunctionPlan, Launch, Number, Variant
from byoc.te import Dimension, PrimExpr, Size, Tensor, binary, recurrence
from byoc.te.expr import Binary, Const
from byoc.te.walk import checks_of, loaded_tensors, unique_nodes

LONGEST_ORIGIN = 400
FP64 = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
FP16 = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
TYPED = ("float16",)  # what is a type where the device has cl_khr_fp16
NO_CONTRACTION = "#pragma OPENCL FP_CONTRACT OFF\n"  # products and sums of different operators round each


@dataclass(frozen=True)
class _Stage:
    """A stage's kernels by name, with their text, what they read and fill, and the sizes that they take.

    ``checks`` says that they check indices; ``nodes`` are the ONNX nodes of its group.
    """

    kernels: tuple[tuple[str, KernelPlan], ...]
    text: str
    sources: tuple[Tensor, ...]
    stage: Tensor
    sizes: tuple[str, ...]
    checks: bool
    nodes: tuple[str, ...]


class _Emitter:
    def __init__(self, profile: DeviceProfile) -> None:
        self.profile = profile
        self.kernels = Names(RESERVED)
        self.helpers: dict[tuple[str, str], None] = {}

    def stage(self, program: Program, group: Group, stage: Tensor) -> _Stage:
        """The kernels that fill *stage*."""
        simplify = Simplifier()
        checks = checks_of([stage.element])
        numbers = program.signature.check_numbers(checks)
        sources, sizes = tuple(loaded_tensors(stage.element)), stage_sizes(stage)
        part = f"{stage.name}_of_" if len(group.stages) > 1 else ""
        plans = schedule_stage(stage, simplify, self.profile)
        kernels, writer = [], Writer()
        for plan in plans:
            suffix = f"_{plan.schedule}" if len(plans) > 1 else ""
            name = self.kernels.fresh(f"kernel_{part}{group.name}{suffix}")
            names = Names(RESERVED)
            exprs = ExprWriter(OPENCL_C, names, simplify)
            exprs.checks = checks
            for k in range(len(checks)):
                names.reserve(outside_name(k))
            parameters = [f"__global const {TYPES[t.dtype]} *restrict {names(t, t.name)}" for t in sources]
            parameters.append(f"__global {TYPES[stage.dtype]} *restrict {names(stage, stage.name)}")
            parameters += [f"const long {names(Size(s), s)}" for s in sizes]
            parameters += ["__global long *restrict found"] if checks else []
            body = Writer()
            KernelWriter(body, exprs, index_type(stage, simplify)).block(plan.statements)
            writer.line(f"/* {_comment(group, stage, sources)} */")
            head = (
                "__kernel void"
                if plan.items is None
                else f"__kernel __attribute__((reqd_work_group_size({plan.items}, 1, 1))) void"
            )
            with writer.block(f"{head} {name}({', '.join(parameters)}) {{"):
                for k in exprs.extents:
                    writer.line(f"ulong {outside_name(k)} = 0;")
                writer.lines(body.text())
                for k, extent in exprs.extents.items():
                    writer.line(f"report_outside(found, {numbers[k]}, {outside_name(k)}, {extent});")
            self.helpers.update(exprs.helpers)
            kernels.append((name, plan))
        return _Stage(tuple(kernels), writer.text(), sources, stage, sizes, bool(checks), tuple(group.origin))


def emit_programs(
    programs: Sequence[Program], profile: DeviceProfile = ANY_GPU, halves: bool = False
) -> tuple[str, tuple[FunctionPlan, ...]]:
    """OpenCL C with the kernels of all *programs* for devices of *profile*, and how each is launched.

    With *halves* a float16 is the type ``half``.

    Raises UnsupportedError for a function that OpenCL C cannot express.
    """
    emitter = _Emitter(profile)
    programs = [_prepared(as_stored(program, typed=TYPED if halves else ()), profile) for program in programs]
    for program in programs:
        if any(recurrence(group.stages) for group in program.groups):
            raise UnsupportedError(f"{program.symbol}: a recurrence is a loop of the host, not of OpenCL")
    stages = [[emitter.stage(p, g, s) for g in p.groups for s in g.stages] for p in programs]
    helpers = [SUPPORT[name](dtype) + "\n" for name, dtype in emitter.helpers]
    text = "\n".join([NO_CONTRACTION, *helpers, *(s.text for of_program in stages for s in of_program)])
    if "double" in text:
        text = f"{FP64}\n{text}"
    if halves and any(t.dtype in TYPED for t in (t for p in programs for t in _all_tensors(p))):
        text = f"{FP16}\n{text}"
    return text, tuple(_function_plan(p, own) for p, own in zip(programs, stages, strict=True))


def _all_tensors(program: Program) -> Iterator[Tensor]:
    """Whatever has memory, or is computed, in *program*."""
    yield from (*program.inputs, *(t for t, _ in program.constants), *(s for g in program.groups for s in g.stages))


def _prepared(program: Program, profile: DeviceProfile) -> Program:
    """*program* as a device of *profile* computes it."""
    if profile.is_cpu:
        return program
    return split_sums(read_through_padding(program), profile)


def stage_sizes(stage: Tensor) -> tuple[str, ...]:
    """The names of the sizes on which the kernel of *stage* depends, in the order of their first use."""
    nodes = list(unique_nodes(stage.element))
    dims = [d for t in (stage, *loaded_tensors(stage.element)) for d in t.shape]
    dims += [a.extent for n in nodes for a in getattr(n, "axes", ())]
    inner = [n for d in dims if isinstance(d, PrimExpr) for n in unique_nodes(d)]
    return tuple(dict.fromkeys(n.name for n in (*nodes, *inner) if isinstance(n, Size)))


def _comment(group: Group, stage: Tensor, sources: Sequence[Tensor]) -> str:
    """``data: f32[1, 3, 8, 8], w: … -> out: …; from Conv_0, Relu_1``"""
    arrow = f"{', '.join(map(_notation, sources))} -> {_notation(stage)}".strip()
    origin = ", ".join(group.origin)
    shown = origin if len(origin) <= LONGEST_ORIGIN else f"{origin[:LONGEST_ORIGIN]}..."
    return comment_text(f"{arrow}; from {shown}" if shown else arrow)


def _notation(tensor: Tensor) -> str:
    dims = ", ".join(d.name if isinstance(d, Size) else str(d) if isinstance(d, int) else "?" for d in tensor.shape)
    return f"{tensor.name}: {short_name(tensor.dtype)}[{dims}]"


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


def _function_plan(program: Program, stages: Sequence[_Stage]) -> FunctionPlan:
    simplify = Simplifier()
    inputs, constants = program.inputs, tuple(t for t, _ in program.constants)
    numbers = {t: k for k, t in enumerate((*inputs, *constants, *program.outputs))}
    buffers = [_buffer(t, simplify) for t in numbers]
    launches: list[Launch] = []
    for stage in stages:
        if stage.stage not in numbers:
            numbers[stage.stage] = len(buffers)
            buffers.append(_buffer(stage.stage, simplify))
        used = tuple(numbers[t] for t in (*stage.sources, stage.stage))
        variants = tuple(_variant(name, plan, simplify) for name, plan in stage.kernels)
        launches.append(Launch(used, stage.sizes, variants, stage.checks, stage.nodes))
    return FunctionPlan(program.signature, tuple(buffers), tuple(launches))


def _buffer(tensor: Tensor, simplify: Simplifier) -> Buffer:
    return Buffer(number(simplify(binary("mul", product(tensor.shape), as_index(dtype_bytes(tensor.dtype))))))


def _variant(name: str, plan: KernelPlan, simplify: Simplifier) -> Variant:
    when = tuple(Bound(number(r.number), r.least, r.most) for r in plan.when)
    local = LOCAL_SIZE if plan.items is None else plan.items
    return Variant(plan.schedule, name, number(simplify(plan.extent)), local, plan.groups, when, plan.items is not None)
