"""OpenCL C from Programs: a kernel a stage, or several for free sizes, and per symbol the plan of its launches as data.

The source is the same text whenever it is made for the same programs. A plan names buffers by number: inputs,
constants, temporaries, outputs. A number that depends on the sizes of a call is written as ``12``, ``"N"`` or
``["mul", "N", 12]`` (``add sub mul div mod min max``; ``div`` rounds down), and evaluated by
``byoc.runtime.opencl.plan``, whose docstring gives the whole format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from byoc.codegen.kernel.attention import Attention, attentions, nodes_of
from byoc.codegen.kernel.expr_text import ExprWriter, outside_name
from byoc.codegen.kernel.names import Names, comment_text
from byoc.codegen.kernel.program import Group, Program
from byoc.codegen.kernel.shared_rows import SharedRows, row_runs
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.kernel.spelling import short_name
from byoc.codegen.kernel.stored_types import as_stored
from byoc.codegen.kernel.writer import Writer
from byoc.codegen.opencl.attention_tiles import attention_plan
from byoc.codegen.opencl.cpu.blocks import Blocks, meets_between_rows
from byoc.codegen.opencl.kernel_plan import KernelPlan, product
from byoc.codegen.opencl.language import OPENCL_C, RESERVED, SUPPORT, TYPES
from byoc.codegen.opencl.padding import read_through_padding
from byoc.codegen.opencl.products.split import split_sums
from byoc.codegen.opencl.profile import ANY_GPU, DeviceProfile
from byoc.codegen.opencl.row_kernels import row_kernels
from byoc.codegen.opencl.row_statements import RowWriter
from byoc.codegen.opencl.schedule import index_type, schedule_stage
from byoc.errors import UnsupportedError
from byoc.ir.types import dtype_bytes
from byoc.runtime.opencl.plan import Bound, Buffer, FunctionPlan, Launch, Number, Variant
from byoc.te import Dimension, PrimExpr, Size, Tensor, binary, recurrence
from byoc.te.expr import Binary, Const
from byoc.te.walk import checks_of, loaded_tensors, unique_nodes

LONGEST_ORIGIN = 400
SHARES = 4  # work-groups of a block for each unit of a processor: one that is held up does not hold up the others
FP64 = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
FP16 = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
TYPED = ("float16",)  # what is a type where the device has cl_khr_fp16
NO_CONTRACTION = "#pragma OPENCL FP_CONTRACT OFF\n"  # products and sums of different operators round each


@dataclass(frozen=True)
class _Stage:
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


class _Emitter:
    def __init__(self, profile: DeviceProfile) -> None:
        self.profile = profile
        self.kernels = Names(RESERVED)
        self.helpers: dict[tuple[str, str], None] = {}
        machine = profile.machine
        self.blocks = None if machine is None else Blocks(machine, OPENCL_C, RESERVED, self.kernels)

    def program(self, program: Program) -> list[_Stage]:
        """The kernels of *program*, in order."""
        readers: dict[Tensor, set[Tensor]] = {}
        for stage in (s for g in program.groups for s in g.stages):
            for tensor in loaded_tensors(stage.element):
                readers.setdefault(tensor, set()).add(stage)
        if self.blocks is not None and takes_blocks(program, self.profile, halves=True):
            groups = program.groups
            return [made for group in groups for made in self._on_cpu(program, group, self.blocks, readers)]
        result: list[_Stage] = []
        found = {a.result: made for a in attentions(program) if (made := self._attention(program, a)) is not None}
        done = {s for made in found.values() for s in made.stages}
        for group in program.groups:
            left = [s for s in group.stages if s not in done or s in found]
            for run in row_runs(left, found):
                if isinstance(run, Tensor) and run in found:
                    result.append(found[run])
                    continue
                rows = self._rows(program, group, run, readers) if isinstance(run, SharedRows) else None
                alone = run.stages if isinstance(run, SharedRows) else (run,)
                result += [rows] if rows is not None else [self.stage(program, group, s) for s in alone]
        return result

    def _on_cpu(
        self, program: Program, group: Group, blocks: Blocks, readers: Mapping[Tensor, set[Tensor]]
    ) -> list[_Stage]:
        """The kernels of *group* for a processor: C's blocks, or one for its rows where these would be several."""
        runs = list(row_runs(group.stages, {})) if meets_between_rows(group) else []
        if len(runs) == 1 and isinstance(runs[0], SharedRows):
            rows = self._rows(program, group, runs[0], readers)
            if rows is not None:
                return [rows]
        numbers = program.signature.check_numbers(group.checks)
        kernels = blocks.kernels(group, {t for t, _ in program.constants}, numbers)
        if kernels is None:
            return [self.stage(program, group, stage) for stage in group.stages]
        self.helpers.update(blocks.helpers)
        result, groups = [], SHARES * self.profile.units
        for k in kernels:
            text = f"/* {_comment(group, k.targets, k.sources)} */\n{k.text}" if k.text else ""
            launched = ((k.name, KernelPlan("block", (), as_index(groups), groups=True, items=1)),)
            result.append(_Stage(launched, text, k.sources, k.targets, k.sizes, k.checks, group.origin, k.targets))
        return result

    def _attention(self, program: Program, found: Attention) -> _Stage | None:
        """The kernel of an attention; None where no schedule fits the device."""
        simplify = Simplifier()
        plan = attention_plan(found, self.profile, simplify)
        if plan is None:
            return None
        group, nodes = nodes_of(program, found)
        group = replace(group, origin=nodes)
        return self._kernels(program, group, found.stages, (found.result,), (plan,), simplify, found.sources)

    def _rows(
        self, program: Program, group: Group, found: SharedRows, readers: Mapping[Tensor, set[Tensor]]
    ) -> _Stage | None:
        """The kernels of stages over shared rows; None where each is better alone."""
        simplify = Simplifier()
        outside = {s for s in found.stages if s in program.outputs or readers.get(s, set()) - set(found.stages)}
        kernels = row_kernels(found, outside, self.profile, simplify)
        if kernels is None:
            return None
        return self._kernels(program, group, kernels.stages, kernels.targets, kernels.plans, simplify)

    def stage(self, program: Program, group: Group, stage: Tensor) -> _Stage:
        """The kernels that fill *stage*."""
        simplify = Simplifier()
        return self._kernels(
            program, group, (stage,), (stage,), schedule_stage(stage, simplify, self.profile), simplify
        )

    def _kernels(
        self,
        program: Program,
        group: Group,
        stages: Sequence[Tensor],
        targets: Sequence[Tensor],
        plans: Sequence[KernelPlan],
        simplify: Simplifier,
        sources: tuple[Tensor, ...] = (),
    ) -> _Stage:
        """The kernels of *plans*, which compute *stages* and leave the *targets* among these in buffers.

        *sources* are what they read, if that is not simply what the stages load.
        """
        checks = checks_of([s.element for s in stages])
        numbers = program.signature.check_numbers(checks)
        read = dict.fromkeys(t for s in stages for t in loaded_tensors(s.element))
        sources = sources or tuple(t for t in read if t not in stages)
        sizes = tuple(dict.fromkeys(n for s in stages for n in stage_sizes(s)))
        part = "" if len(stages) >= len(group.stages) else f"{'_'.join(s.name for s in stages)}_of_"
        long = any(index_type(s, simplify) == "long" for s in stages)
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
            parameters += [f"__global {TYPES[t.dtype]} *restrict {names(t, t.name)}" for t in targets]
            parameters += [f"const long {names(Size(s), s)}" for s in sizes]
            parameters += ["__global long *restrict found"] if checks else []
            body = Writer()
            RowWriter(body, exprs, "long" if long else "int").block(plan.statements)
            writer.line(f"/* {_comment(group, targets, sources)} */")
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
        return _Stage(
            tuple(kernels), writer.text(), sources, tuple(targets), sizes, bool(checks), group.origin, tuple(stages)
        )


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
    stages = [emitter.program(p) for p in programs]
    support = SUPPORT if emitter.blocks is None else emitter.blocks.language.support
    helpers = [support[name](dtype) + "\n" for name, dtype in emitter.helpers]
    vectors = [] if emitter.blocks is None else emitter.blocks.definitions()
    text = "\n".join([NO_CONTRACTION, *helpers, *vectors, *(s.text for of_program in stages for s in of_program)])
    if "double" in text:
        text = f"{FP64}\n{text}"
    if halves and any(t.dtype in TYPED for p in programs for t in _all_tensors(p)):
        text = f"{FP16}\n{text}"
    return text, tuple(_function_plan(p, own) for p, own in zip(programs, stages, strict=True))


def takes_blocks(program: Program, profile: DeviceProfile, halves: bool) -> bool:
    """Whether *program* is written by C's schedules: on a processor, unless float16 is a type, with *halves*."""
    return profile.is_cpu and not (halves and any(t.dtype in TYPED for t in _all_tensors(program)))


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


def _comment(group: Group, targets: Sequence[Tensor], sources: Sequence[Tensor]) -> str:
    """``data: f32[1, 3, 8, 8], w: … -> out: …; from Conv_0, Relu_1``"""
    arrow = f"{', '.join(map(_notation, sources))} -> {', '.join(map(_notation, targets))}".strip()
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
        for target in (t for t in stage.targets if t not in numbers):
            numbers[target] = len(buffers)
            buffers.append(_buffer(target, simplify))
        used = tuple(numbers[t] for t in (*stage.sources, *stage.targets))
        variants = tuple(_variant(name, plan, simplify) for name, plan in stage.kernels)
        launches.append(Launch(used, stage.sizes, variants, stage.checks, stage.nodes))
    return FunctionPlan(program.signature, tuple(buffers), tuple(launches))


def _buffer(tensor: Tensor, simplify: Simplifier) -> Buffer:
    return Buffer(number(simplify(binary("mul", product(tensor.shape), as_index(dtype_bytes(tensor.dtype))))))


def _variant(name: str, plan: KernelPlan, simplify: Simplifier) -> Variant:
    when = tuple(Bound(number(r.number), r.least, r.most) for r in plan.when)
    local = plan.local if plan.items is None else plan.items
    return Variant(plan.schedule, name, number(simplify(plan.extent)), local, plan.groups, when, plan.items is not None)
