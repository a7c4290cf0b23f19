"""OpenCL C from Programs: a kernel a stage, or several for free sizes, and per symbol the plan of its launches as data.

The source is the same text whenever it is made for the same programs. A plan names buffers by number: inputs,
constants, temporaries, outputs. A number that depends on the sizes of a call is written as ``12``, ``"N"`` or
``["mul", "N", 12]`` (``add sub mul div mod min max``; ``div`` rounds down), and evaluated by
``byoc.runtime.opencl.launches``, whose docstring gives the whole format.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from byoc.codegen.c.winograd.options import DEFAULT as WINOGRAD
from byoc.codegen.c.winograd.options import WinogradOptions
from byoc.codegen.kernel.attention import Attention, attentions
from byoc.codegen.kernel.choice import Choice, Choices
from byoc.codegen.kernel.expr_text import outside_name
from byoc.codegen.kernel.program import Group, Program, group_of_stages
from byoc.codegen.kernel.shared_rows import SharedRows, row_runs
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.kernel.spelling import short_name
from byoc.codegen.kernel.stored_types import as_stored
from byoc.codegen.kernel.writer import Names, Writer, comment_text
from byoc.codegen.opencl.block_choice import chosen_block
from byoc.codegen.opencl.cpu.block_space import BLOCK, work_groups
from byoc.codegen.opencl.cpu.blocks import CpuKernels, meets_between_rows
from byoc.codegen.opencl.device.choosing import Chooser
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, own_kernel
from byoc.codegen.opencl.device.language import OPENCL_C, RESERVED, SUPPORT, TYPES
from byoc.codegen.opencl.device.pointers import Pointer
from byoc.codegen.opencl.device.processor import machine_of
from byoc.codegen.opencl.device.profile import ANY_GPU, DeviceProfile
from byoc.codegen.opencl.group_fusion import is_view, join_neighbours, join_rows, views
from byoc.codegen.opencl.horizontal_fusion import fuse_parallel_products
from byoc.codegen.opencl.images.choice import BUFFER, IMAGE, ChosenImages, choose_images
from byoc.codegen.opencl.images.coordinates import ImageTensors
from byoc.codegen.opencl.images.reading import ImageExprWriter
from byoc.codegen.opencl.images.texel_kernel import texel_kernel
from byoc.codegen.opencl.launch_plan import WrittenKernels, WrittenProgram, function_plan, launch_work
from byoc.codegen.opencl.products.matrix_format import MATRIX_SUPPORT
from byoc.codegen.opencl.products.split import SCHEDULE, split_sums
from byoc.codegen.opencl.products.terms_last import terms_last
from byoc.codegen.opencl.products.warpgroup import WARPGROUP_SUPPORT
from byoc.codegen.opencl.read_through import read_through_padding, read_through_transposes
from byoc.codegen.opencl.recurrent_steps import step_kernel
from byoc.codegen.opencl.rows.attention_sizes import attention_space
from byoc.codegen.opencl.rows.attention_tiles import attention_plan
from byoc.codegen.opencl.rows.row_kernels import have_own_kernel, row_kernels, row_space
from byoc.codegen.opencl.rows.row_statements import RowWriter
from byoc.codegen.opencl.schedule import index_type, schedule_stage, stage_space
from byoc.codegen.opencl.window_operands import compute_windows_in_products
from byoc.codegen.opencl.winograd.rewrite import use_winograd
from byoc.ir.types import dtype_bytes
from byoc.runtime.opencl.launches import FunctionPlan
from byoc.te import PrimExpr, Size, Tensor, in_phases
from byoc.te.walk import checks_of, loaded_tensors, unique_nodes

LONGEST_ORIGIN = 400
FP64 = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
FP16 = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
_SUPPORT = {**SUPPORT, **MATRIX_SUPPORT, **WARPGROUP_SUPPORT}  # helpers of kernels, by their names
TYPED = ("float16",)  # what is a type where the device has cl_khr_fp16
NO_CONTRACTION = "#pragma OPENCL FP_CONTRACT OFF\n"  # products and sums of different operators round each


@dataclass(frozen=True)
class _Unit:
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


class _Emitter:
    def __init__(self, chooser: Chooser, memory: str, blocks: bool) -> None:
        self.profile, self.chooser, self.memory = chooser.profile, chooser, memory
        self.kernels = Names(RESERVED)
        self.helpers: dict[tuple[str, str], None] = {}
        machine = self.profile.machine if blocks and memory == BUFFER else None
        self.blocks = None if machine is None else CpuKernels(machine, OPENCL_C, RESERVED, self.kernels)

    def program(self, program: Program, places: Mapping[Tensor, Tensor]) -> WrittenProgram:
        """The kernels of *program*, in order; *places* as of ``views``."""
        units = list(self._units(program, places))
        images = ChosenImages()
        if self.memory == IMAGE:
            alone = [u for u in units if isinstance(u, _Unit) and u.single]
            by_texels = {u.stages[0] for u in alone if u.plans[0].schedule != "tree"}
            images = choose_images(program, by_texels, self.profile)
        stages = [self._written(program, u, images) if isinstance(u, _Unit) else u for u in units]
        return WrittenProgram(stages, images, places)

    def _units(self, program: Program, places: Mapping[Tensor, Tensor]) -> Iterator[_Unit | WrittenKernels]:
        """What is computed together, in order, with its schedules."""
        readers: dict[Tensor, set[Tensor]] = {}
        for stage in (s for g in program.groups for s in g.stages):
            for tensor in loaded_tensors(stage.element):
                readers.setdefault(tensor, set()).add(stage)
        if self.blocks is not None and takes_blocks(program, self.profile, halves=True):
            for group in program.groups:
                yield from self._on_cpu(program, group, self.blocks, readers)
            return
        found = {a.result: made for a in attentions(program) if (made := self._attention(program, a)) is not None}
        done = {s for made in found.values() for s in made.stages}
        done |= {s for g in program.groups for s in g.stages if is_view(s, places, program.outputs)}
        for group in program.groups:
            before, ring, behind = in_phases(group.stages)  # without a recurrence all are before
            yield from self._apart(program, group, [s for s in before if s not in done or s in found], found, readers)
            if ring:
                yield self._steps(group, ring)
            yield from self._apart(program, group, [s for s in behind if s not in done or s in found], found, readers)

    def _apart(
        self,
        program: Program,
        group: Group,
        stages: Sequence[Tensor],
        found: Mapping[Tensor, _Unit],
        readers: Mapping[Tensor, set[Tensor]],
    ) -> Iterator[_Unit]:
        """What computes *stages* of *group*: an attention that was *found*, rows together, and each other alone."""
        for run in row_runs(stages, {*found, *(s for s in stages if own_kernel(s) is not None)}):
            if isinstance(run, Tensor) and run in found:
                yield found[run]
                continue
            rows = self._rows(program, group, run, readers) if isinstance(run, SharedRows) else None
            alone = run.stages if isinstance(run, SharedRows) else (run,)
            yield from [rows] if rows is not None else [self._single(group, s) for s in alone]

    def _steps(self, group: Group, ring: tuple[Tensor, ...]) -> _Unit:
        """The kernel of a recurrence."""
        simplify = Simplifier()
        return _Unit(group, ring, ring, (step_kernel(ring, simplify, self.profile),), simplify)

    def _on_cpu(
        self, program: Program, group: Group, blocks: CpuKernels, readers: Mapping[Tensor, set[Tensor]]
    ) -> Iterator[_Unit | WrittenKernels]:
        """The kernels of *group* for a processor: C's blocks, or one for its rows where these would be several."""
        runs = list(row_runs(group.stages, {})) if meets_between_rows(group) else []
        if len(runs) == 1 and isinstance(runs[0], SharedRows):
            rows = self._rows(program, group, runs[0], readers)
            if rows is not None:
                yield rows
                return
        outside = {s for s in group.stages if s in program.outputs or readers.get(s, set()) - set(group.stages)}
        choice = chosen_block(group, outside, self.chooser)
        if choice.kind != BLOCK:
            yield self._single(group, group.stages[0], choice)
            return
        numbers = program.signature.check_numbers(group.checks)
        machine = machine_of(int(choice["lanes"]))
        kernels = blocks.kernels(group, {t for t, _ in program.constants}, numbers, machine)
        if kernels is None:
            yield from (self._single(group, stage) for stage in group.stages)
            return
        self.helpers.update(blocks.helpers)
        for k in kernels:
            extent = 1 if k.in_steps else work_groups(choice, self.profile)
            launched = KernelPlan(BLOCK, (), as_index(extent), groups=True, items=1)
            text = f"/* {_comment(group, k.targets, k.sources)} */\n{k.text}" if k.text else ""
            work = launch_work(group, k.targets, k.sources, k.targets, Simplifier())
            named = ((k.name, launched),)
            yield WrittenKernels(named, text, k.sources, k.targets, k.sizes, k.checks, group.origin, k.targets, work)

    def _attention(self, program: Program, found: Attention) -> _Unit | None:
        """The kernel of an attention; None where no schedule fits the device."""
        simplify = Simplifier()
        stages = [s for g in program.groups for s in g.stages if s in found.stages]

        def choose() -> Choice | None:
            return self.chooser.choose(stages, [found.result], lambda: attention_space(found, self.profile, simplify))

        plan = attention_plan(found, self.profile, simplify, choose)
        if plan is None:
            return None
        group = group_of_stages(program, found.stages, found.result)
        return _Unit(group, found.stages, (found.result,), (plan,), simplify, found.sources)

    def _rows(
        self, program: Program, group: Group, found: SharedRows, readers: Mapping[Tensor, set[Tensor]]
    ) -> _Unit | None:
        """The kernels of stages over shared rows; None where each is better alone."""
        simplify = Simplifier()
        outside = {s for s in found.stages if s in program.outputs or readers.get(s, set()) - set(found.stages)}
        choice = None
        if have_own_kernel(found, self.profile, simplify):
            targets = [s for s in found.stages if s in outside]
            choice = self.chooser.choose(found.stages, targets, lambda: row_space(found, self.profile, simplify))
        kernels = row_kernels(found, outside, self.profile, simplify, choice)
        if kernels is None:
            return None
        return _Unit(group, kernels.stages, kernels.targets, kernels.plans, simplify)

    def _single(self, group: Group, stage: Tensor, given: Choice | None = None) -> _Unit:
        """The kernels that fill *stage*, by the choice that is *given*, else by one that is asked for."""
        simplify = Simplifier()
        decided = given or stage.meta.get(SCHEDULE)
        choice = decided if isinstance(decided, Choice) else None
        if choice is None and own_kernel(stage) is None:
            choice = self.chooser.choose([stage], [stage], lambda: stage_space(stage, simplify, self.profile))
        plans = schedule_stage(stage, simplify, self.profile, choice)
        return _Unit(group, (stage,), (stage,), plans, simplify, single=True)

    def _written(self, program: Program, unit: _Unit, chosen: ChosenImages) -> WrittenKernels:
        """The kernels of *unit*, whose tensors are images as *chosen*."""
        group, stages, targets, plans, simplify = unit.group, unit.stages, unit.targets, unit.plans, unit.simplify
        images = chosen.sizes
        if targets[0] in chosen.by_texels:
            plans = (texel_kernel(targets[0], images, simplify),)
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
            name = self.kernels.fresh(f"kernel_{part}{group.name}{suffix}")
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
            writer.line(f"/* {_comment(group, targets, sources)} */")
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
            self.helpers.update(exprs.helpers)
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


def emit_programs(
    programs: Sequence[Program],
    profile: DeviceProfile = ANY_GPU,
    halves: bool = False,
    memory: str = BUFFER,
    choices: Choices | None = None,
) -> tuple[str, tuple[FunctionPlan, ...]]:
    """OpenCL C with the kernels of all *programs* for devices of *profile*, and how each is launched.

    With *halves* a float16 is the type ``half``. *memory* is ``buffer``, or ``image`` for tensors that can be images.
    *choices* are asked which kernel is taken where several are possible.

    Raises UnsupportedError for a function that OpenCL C cannot express.
    """
    prepared = [prepare(program, profile, halves, memory) for program in programs]
    return emit_prepared(prepared, Chooser(profile, choices), halves, memory)


def prepare(
    program: Program,
    profile: DeviceProfile,
    halves: bool = False,
    memory: str = BUFFER,
    winograd: WinogradOptions = WINOGRAD,
) -> Program:
    """*program* over what lies in memory, and for a GPU in as few stages as its kernels can take, its convolutions by
    Winograd's method as is allowed.
    """
    stored = as_stored(program, typed=TYPED if halves else ())
    if profile.is_cpu:
        return stored
    joined = join_neighbours(read_through_padding(stored))
    if memory == IMAGE:
        return joined
    operands = compute_windows_in_products(read_through_transposes(joined), profile)
    return terms_last(use_winograd(fuse_parallel_products(operands), profile, winograd), profile)


def emit_prepared(
    programs: Sequence[Program],
    chooser: Chooser,
    halves: bool = False,
    memory: str = BUFFER,
    blocks: bool = True,
) -> tuple[str, tuple[FunctionPlan, ...]]:
    """As :func:`emit_programs`, for programs that :func:`prepare` made, or C's preparation.

    Without *blocks* a processor takes the schedules of work-items, among which there is a choice. Matrix units take
    operands from buffers alone.
    """
    if memory == IMAGE:
        chooser = replace(chooser, profile=replace(chooser.profile, matrix_units=""))
    emitter = _Emitter(chooser, memory, blocks)
    programs = [_with_schedules(program, chooser, memory) for program in programs]
    alone = chooser.profile.is_cpu or memory == IMAGE  # an image has one shape
    places = [{} if alone else views(p) for p in programs]
    written = [emitter.program(p, own) for p, own in zip(programs, places, strict=True)]
    support = _SUPPORT if emitter.blocks is None else emitter.blocks.language.support
    helpers = [support[name](dtype) + "\n" for name, dtype in emitter.helpers]
    vectors = [] if emitter.blocks is None else emitter.blocks.definitions()
    texts = [s.text for of_program in written for s in of_program.stages]
    text = "\n".join([NO_CONTRACTION, *helpers, *vectors, *texts])
    if "double" in text:
        text = f"{FP64}\n{text}"
    if halves and any(t.dtype in TYPED for p in programs for t in _all_tensors(p)):
        text = f"{FP16}\n{text}"
    return text, tuple(function_plan(p, own) for p, own in zip(programs, written, strict=True))


def takes_blocks(program: Program, profile: DeviceProfile, halves: bool) -> bool:
    """Whether *program* is written by C's schedules: on a processor, unless float16 is a type, with *halves*."""
    return profile.is_cpu and not (halves and any(t.dtype in TYPED for t in _all_tensors(program)))


def _all_tensors(program: Program) -> Iterator[Tensor]:
    """Whatever has memory, or is computed, in *program*."""
    yield from (*program.inputs, *(t for t, _ in program.constants), *(s for g in program.groups for s in g.stages))


def _with_schedules(program: Program, chooser: Chooser, memory: str) -> Program:
    """*program* with its products in parts, where the device has units for them, and tiles in local memory."""
    profile = chooser.profile
    if profile.is_cpu:
        return program
    if memory == IMAGE:
        return join_rows(program)
    if chooser.choices is None:
        return join_rows(split_sums(program, profile))
    apart = {s for a in attentions(program) for s in a.stages}

    def decide(stage: Tensor, parts: Sequence[int]) -> Choice | None:
        if stage in apart:
            return None
        return chooser.choose([stage], [stage], lambda: stage_space(stage, Simplifier(), profile, parts))

    return join_rows(split_sums(program, profile, decide))


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


def _comment(group: Group, targets: Sequence[Tensor], sources: Sequence[Tensor]) -> str:
    """``data: f32[1, 3, 8, 8], w: … -> out: …; from Conv_0, Relu_1``"""
    arrow = f"{', '.join(map(_notation, sources))} -> {', '.join(map(_notation, targets))}".strip()
    origin = ", ".join(group.origin)
    shown = origin if len(origin) <= LONGEST_ORIGIN else f"{origin[:LONGEST_ORIGIN]}..."
    return comment_text(f"{arrow}; from {shown}" if shown else arrow)


def _notation(tensor: Tensor) -> str:
    dims = ", ".join(d.name if isinstance(d, Size) else str(d) if isinstance(d, int) else "?" for d in tensor.shape)
    return f"{tensor.name}: {short_name(tensor.dtype)}[{dims}]"
