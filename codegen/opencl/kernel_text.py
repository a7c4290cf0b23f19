"""The text of kernels: what a few stages compute together, with its schedules, as OpenCL C."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.expr_text import outside_name
from byoc.codegen.kernel.program import Group, Program
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.kernel.spelling import short_name
from byoc.codegen.kernel.writer import Names, Writer, comment_text
from byoc.codegen.opencl.device.kernel_plan import KernelPlan
from byoc.codegen.opencl.device.language import OPENCL_C, RESERVED, TYPES
from byoc.codegen.opencl.device.pointers import Pointer
from byoc.codegen.opencl.images.coordinates import ImageTensors
from byoc.codegen.opencl.images.reading import ImageExprWriter
from byoc.codegen.opencl.launch_plan import WrittenKernels, launch_work
from byoc.codegen.opencl.rows.row_statements import RowWriter
from byoc.codegen.opencl.schedule import index_type
from byoc.ir.types import dtype_bytes
from byoc.te import PrimExpr, Size, Tensor
from byoc.te.walk import checks_of, loaded_tensors, unique_nodes

LONGEST_ORIGIN = 400


@dataclass(frozen=True)
class KernelUnit:
    """What one step computes, before it is written: the *plans* that compute *stages* and leave *targets* in memory.

    *sources* are what they read, if that is not simply what the stages load; *single* says that a stage is computed
    alone, by kernels of which each work-item or group has its own elements.
    """

    group: Group
    stages: tuple[Tensor, ...]
    targets: tuple[Tensor, ...]
    plans: tuple[KernelPlan, ...]
    simplify: Simplifier
    sources: tuple[Tensor, ...] = ()
    single: bool = False


def write_unit(
    program: Program, unit: KernelUnit, images: ImageTensors, taken: Names, helpers: dict[tuple[str, str], None]
) -> WrittenKernels:
    """The kernels of *unit* of *program*, of whose tensors some are *images*.

    Their names are new among those *taken*; what they call is put among *helpers*.
    """
    group, stages, targets, plans, simplify = unit.group, unit.stages, unit.targets, unit.plans, unit.simplify
    checks = checks_of([s.element for s in stages])
    numbers = program.signature.check_numbers(checks)
    read = dict.fromkeys(t for s in stages for t in loaded_tensors(s.element))
    sources = unit.sources or tuple(t for t in read if t not in stages)
    sizes = tuple(dict.fromkeys(n for s in stages for n in stage_sizes(s)))
    part = "" if len(stages) >= len(group.stages) else f"{'_'.join(s.name for s in stages)}_of_"
    long = any(index_type(s, simplify) == "long" for s in stages)
    kernels, writer = [], Writer()
    for plan in plans:
        suffix = f"_{plan.schedule}" if len(plans) > 1 else ""
        name = taken.fresh(f"kernel_{part}{group.name}{suffix}")
        names = Names(RESERVED)
        exprs = ImageExprWriter(OPENCL_C, names, simplify, images)
        exprs.checks = checks
        for k in range(len(checks)):
            names.reserve(outside_name(k))
        whole = {*(t for t, _ in program.constants), *images}
        pointers = [_pointer(names, t, targets, whole, images) for t in (*sources, *targets)]
        parameters = [*(p.parameter for p in pointers), *(b for p in pointers for b in p.begins)]
        parameters += [f"const long {names(Size(s), s)}" for s in sizes]
        parameters += ["__global long *restrict found"] if checks else []
        body = Writer()
        RowWriter(body, exprs, "long" if long else "int").block(plan.statements)
        writer.line(f"/* {kernel_comment(group, targets, sources)} */")
        head = (
            "__kernel void"
            if plan.items is None
            else f"__kernel __attribute__((reqd_work_group_size({plan.items}, 1, 1))) void"
        )
        with writer.block(f"{head} {name}({', '.join(parameters)}) {{"):
            for line in (line for p in pointers for line in p.lines):
                writer.line(line)
            for k in exprs.extents:
                writer.line(f"ulong {outside_name(k)} = 0;")
            writer.lines(body.text())
            for k, extent in exprs.extents.items():
                writer.line(f"report_outside(found, {numbers[k]}, {outside_name(k)}, {extent});")
        helpers.update(exprs.helpers)
        kernels.append((name, plan))
    return WrittenKernels(
        tuple(kernels),
        writer.text(),
        sources,
        tuple(targets),
        sizes,
        bool(checks),
        group.origin,
        tuple(stages),
        launch_work(group, stages, sources, targets, simplify),
    )


def _pointer(
    names: Names, tensor: Tensor, targets: Collection[Tensor], whole: Collection[Tensor], images: ImageTensors
) -> Pointer:
    """The parameters of a kernel for *tensor*; those in *whole*, constants and *images*, have memory of their own."""
    name, fills = names(tensor, tensor.name), tensor in targets
    if tensor in images:
        return Pointer(name, f"__{'write' if fills else 'read'}_only image2d_t {name}")
    return Pointer.of(names, name, TYPES[tensor.dtype], dtype_bytes(tensor.dtype), fills, tensor in whole)


def stage_sizes(stage: Tensor) -> tuple[str, ...]:
    """The names of the sizes on which the kernel of *stage* depends, in the order of their first use."""
    nodes = list(unique_nodes(stage.element))
    dims = [d for t in (stage, *loaded_tensors(stage.element)) for d in t.shape]
    dims += [a.extent for n in nodes for a in getattr(n, "axes", ())]
    inner = [n for d in dims if isinstance(d, PrimExpr) for n in unique_nodes(d)]
    return tuple(dict.fromkeys(n.name for n in (*nodes, *inner) if isinstance(n, Size)))


def kernel_comment(group: Group, targets: Sequence[Tensor], sources: Sequence[Tensor]) -> str:
    """``data: f32[1, 3, 8, 8], w: … -> out: …; from Conv_0, Relu_1``"""
    arrow = f"{', '.join(map(_notation, sources))} -> {', '.join(map(_notation, targets))}".strip()
    origin = ", ".join(group.origin)
    shown = origin if len(origin) <= LONGEST_ORIGIN else f"{origin[:LONGEST_ORIGIN]}..."
    return comment_text(f"{arrow}; from {shown}" if shown else arrow)


def _notation(tensor: Tensor) -> str:
    dims = ", ".join(d.name if isinstance(d, Size) else str(d) if isinstance(d, int) else "?" for d in tensor.shape)
    return f"{tensor.name}: {short_name(tensor.dtype)}[{dims}]"
