"""OpenCL C from Programs: one kernel a stage, and per symbol the plan of its launches as data.

The source is the same text whenever it is made for the same programs. A plan names buffers by number: inputs,
constants, temporaries, outputs. A number that depends on the sizes of a call is written as ``12``, ``"N"`` or
``["mul", "N", 12]`` (``add sub mul div mod min max``; ``div`` rounds down), and evaluated by
``byoc.runtime.opencl.plan``, whose docstring gives the whole format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.names import Names, comment_text
from byoc.codegen.kernel.program import Group, Program
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.kernel.spelling import short_name
from byoc.codegen.kernel.writer import Writer
from byoc.codegen.opencl.language import OPENCL_C, RESERVED, SUPPORT, TYPES
from byoc.codegen.opencl.schedule import KernelPlan, index_type, product, schedule_stage
from byoc.codegen.opencl.statements import LOCAL_SIZE, KernelWriter
from byoc.errors import UnsupportedError
from byoc.ir.types import dtype_bytes
from byoc.runtime.opencl.plan import Buffer, FunctionPlan, Launch, Number
from byoc.te import Dimension, PrimExpr, Size, Tensor, binary, recurrence
from byoc.te.expr import Binary, Const
from byoc.te.walk import loaded_tensors, unique_nodes

LONGEST_ORIGIN = 400
FP64 = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"


@dataclass(frozen=True)
class _Kernel:
    """A stage's kernel: its name and text, what it reads and fills, its sizes and its launch."""

    name: str
    text: str
    sources: tuple[Tensor, ...]
    stage: Tensor
    sizes: tuple[str, ...]
    plan: KernelPlan


class _Emitter:
    def __init__(self) -> None:
        self.kernels = Names(RESERVED)
        self.helpers: dict[tuple[str, str], None] = {}

    def kernel(self, group: Group, stage: Tensor) -> _Kernel:
        """The kernel that fills *stage*."""
        simplify = Simplifier()
        names = Names(RESERVED)
        exprs = ExprWriter(OPENCL_C, names, simplify)
        sources, sizes = tuple(loaded_tensors(stage.body)), stage_sizes(stage)
        parameters = [f"__global const {TYPES[t.dtype]} *restrict {names(t, t.name)}" for t in sources]
        parameters.append(f"__global {TYPES[stage.dtype]} *restrict {names(stage, stage.name)}")
        parameters += [f"const long {names(Size(s), s)}" for s in sizes]
        part = f"{stage.name}_of_" if len(group.stages) > 1 else ""
        name = self.kernels.fresh(f"kernel_{part}{group.name}")
        plan = schedule_stage(stage, simplify)
        writer = Writer()
        writer.line(f"/* {_comment(group, stage, sources)} */")
        with writer.block(f"__kernel void {name}({', '.join(parameters)}) {{"):
            KernelWriter(writer, exprs, index_type(stage, simplify)).block(plan.statements)
        self.helpers.update(exprs.helpers)
        return _Kernel(name, writer.text(), sources, stage, sizes, plan)


def emit_programs(programs: Sequence[Program]) -> tuple[str, tuple[FunctionPlan, ...]]:
    """OpenCL C with the kernels of all *programs*, and how each is launched.

    Raises UnsupportedError for a function that OpenCL C cannot express.
    """
    emitter = _Emitter()
    for program in programs:
        if any(recurrence(group.stages) for group in program.groups):
            raise UnsupportedError(f"{program.symbol}: a recurrence is a loop of the host, not of OpenCL")
    kernels = [[emitter.kernel(g, s) for g in p.groups for s in g.stages] for p in programs]
    helpers = [SUPPORT[name](dtype) + "\n" for name, dtype in emitter.helpers]
    text = "\n".join([*helpers, *(k.text for of_program in kernels for k in of_program)])
    if "double" in text:
        text = f"{FP64}\n{text}"
    return text, tuple(_function_plan(p, ks) for p, ks in zip(programs, kernels, strict=True))


def stage_sizes(stage: Tensor) -> tuple[str, ...]:
    """The names of the sizes on which the kernel of *stage* depends, in the order of their first use."""
    nodes = list(unique_nodes(stage.body))
    dims = [d for t in (stage, *loaded_tensors(stage.body)) for d in t.shape]
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


def _function_plan(program: Program, kernels: Sequence[_Kernel]) -> FunctionPlan:
    simplify = Simplifier()
    inputs, constants = program.inputs, tuple(t for t, _ in program.constants)
    numbers = {t: k for k, t in enumerate((*inputs, *constants, *program.outputs))}
    buffers = [_buffer(t, simplify) for t in numbers]
    last_use = {t: k for k, kernel in enumerate(kernels) for t in (*kernel.sources, kernel.stage)}
    free: dict[str, list[int]] = {}
    launches: list[Launch] = []
    for k, kernel in enumerate(kernels):
        if kernel.stage not in numbers:
            buffer = _buffer(kernel.stage, simplify)
            reusable = free.get(repr(buffer.bytes))
            numbers[kernel.stage] = reusable.pop() if reusable else len(buffers)
            buffers += [] if numbers[kernel.stage] < len(buffers) else [buffer]
        used = (*kernel.sources, kernel.stage)
        launches.append(_launch(kernel, [numbers[t] for t in used], simplify))
        for t in dict.fromkeys(used):
            if last_use[t] == k and t in program.temporaries:
                free.setdefault(repr(_buffer(t, simplify).bytes), []).append(numbers[t])
    return FunctionPlan(program.signature, tuple(buffers), tuple(launches))


def _buffer(tensor: Tensor, simplify: Simplifier) -> Buffer:
    return Buffer(number(simplify(binary("mul", product(tensor.shape), as_index(dtype_bytes(tensor.dtype))))))


def _launch(kernel: _Kernel, buffers: Sequence[int], simplify: Simplifier) -> Launch:
    extent = number(simplify(kernel.plan.extent))
    return Launch(kernel.name, tuple(buffers), kernel.sizes, extent, LOCAL_SIZE, kernel.plan.groups)
