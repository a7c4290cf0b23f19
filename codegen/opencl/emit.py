"""OpenCL C from Programs: a kernel a stage, or several for free sizes, and per symbol the plan of its launches as data.

The source is the same text whenever it is made for the same programs. A plan names buffers by number: inputs,
constants, temporaries, outputs. A number that depends on the sizes of a call is written as ``12``, ``"N"`` or
``["mul", "N", 12]`` (``add sub mul div mod min max``; ``div`` rounds down), and evaluated by
``byoc.runtime.opencl.launches``, whose docstring gives the whole format.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from byoc.codegen.c.winograd.options import DEFAULT as WINOGRAD
from byoc.codegen.c.winograd.options import WinogradOptions
from byoc.codegen.kernel.attention import Attention, attentions
from byoc.codegen.kernel.choice import Choice, Choices
from byoc.codegen.kernel.program import Group, Program, group_of_stages
from byoc.codegen.kernel.shared_rows import SharedRows, row_runs
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.kernel.stored_types import as_stored
from byoc.codegen.kernel.writer import Names
from byoc.codegen.opencl.block_choice import chosen_block
from byoc.codegen.opencl.cpu.block_space import BLOCK, work_groups
from byoc.codegen.opencl.cpu.blocks import CpuKernels, meets_between_rows
from byoc.codegen.opencl.device.choosing import Chooser
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, own_kernel
from byoc.codegen.opencl.device.language import OPENCL_C, RESERVED, SUPPORT
from byoc.codegen.opencl.device.processor import machine_of
from byoc.codegen.opencl.device.profile import ANY_GPU, DeviceProfile
from byoc.codegen.opencl.group_fusion import is_view, join_neighbours, views
from byoc.codegen.opencl.horizontal_fusion import fuse_parallel_products
from byoc.codegen.opencl.images.choice import BUFFER, IMAGE, ChosenImages, choose_images
from byoc.codegen.opencl.images.texel_space import texel_plan, texel_space
from byoc.codegen.opencl.kernel_text import KernelUnit, kernel_comment, write_unit
from byoc.codegen.opencl.launch_plan import WrittenKernels, WrittenProgram, function_plan, launch_work
from byoc.codegen.opencl.packed.functions import PACKED_SUPPORT
from byoc.codegen.opencl.packed_products import pack_products
from byoc.codegen.opencl.products.matrix_format import MATRIX_SUPPORT
from byoc.codegen.opencl.products.split import SCHEDULE, split_sums
from byoc.codegen.opencl.products.warpgroup import WARPGROUP_SUPPORT
from byoc.codegen.opencl.read_through import read_through_padding, read_through_transposes
from byoc.codegen.opencl.recurrent_steps import step_kernel
from byoc.codegen.opencl.row_groups import join_before_rows, join_rows
from byoc.codegen.opencl.rows.attention_sizes import attention_space
from byoc.codegen.opencl.rows.attention_tiles import attention_plan
from byoc.codegen.opencl.rows.row_kernels import have_own_kernel, row_kernels, row_space
from byoc.codegen.opencl.schedule import schedule_stage, stage_space
from byoc.codegen.opencl.terms_last import terms_last
from byoc.codegen.opencl.window_operands import compute_windows_in_products
from byoc.codegen.opencl.winograd.rewrite import use_winograd
from byoc.runtime.opencl.launches import FunctionPlan
from byoc.te import Tensor, in_phases
from byoc.te.walk import loaded_tensors

FP64 = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
FP16 = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"
_SUPPORT = {**SUPPORT, **MATRIX_SUPPORT, **WARPGROUP_SUPPORT, **PACKED_SUPPORT}  # helpers of kernels, by their names
TYPED = ("float16",)  # what is a type where the device has cl_khr_fp16
NO_CONTRACTION = "#pragma OPENCL FP_CONTRACT OFF\n"  # products and sums of different operators round each


class _Emitter:
    def __init__(self, chooser: Chooser, memory: str, blocks: bool) -> None:
        self.profile, self.chooser, self.memory = chooser.profile, chooser, memory
        self.kernels = Names(RESERVED)
        self.helpers: dict[tuple[str, str], None] = {}
        self.by_texels: Collection[Tensor] = ()  # stages of the program at hand
        machine = self.profile.machine if blocks and memory == BUFFER else None
        self.blocks = None if machine is None else CpuKernels(machine, OPENCL_C, RESERVED, self.kernels)

    def program(
        self, program: Program, places: Mapping[Tensor, Tensor], given: ChosenImages | None = None
    ) -> WrittenProgram:
        """The kernels of *program*, in order; *places* as of ``views``; with the images that are *given*, if any are.

        Which tensors are images is decided by the model's own schedules: it is the same whatever is tuned.
        """
        images, chooser = given or ChosenImages(), self.chooser
        if self.memory == IMAGE and given is None:
            self.chooser = Chooser(self.profile)
            alone = [u for u in self._units(program, places) if isinstance(u, KernelUnit) and u.single]
            by_texels = {u.stages[0] for u in alone if u.plans[0].schedule != "tree"}
            images = choose_images(program, by_texels, self.profile)
        self.chooser, self.by_texels = replace(chooser, images=images.sizes), images.by_texels
        units = self._units(program, places)
        written = [
            write_unit(program, u, images.sizes, self.kernels, self.helpers) if isinstance(u, KernelUnit) else u
            for u in units
        ]
        return WrittenProgram(written, images, places)

    def _units(self, program: Program, places: Mapping[Tensor, Tensor]) -> Iterator[KernelUnit | WrittenKernels]:
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
        found: Mapping[Tensor, KernelUnit],
        readers: Mapping[Tensor, set[Tensor]],
    ) -> Iterator[KernelUnit]:
        """What computes *stages* of *group*: an attention that was *found*, rows together, and each other alone."""
        for run in row_runs(stages, {*found, *(s for s in stages if own_kernel(s) is not None)}):
            if isinstance(run, Tensor) and run in found:
                yield found[run]
                continue
            rows = self._rows(program, group, run, readers) if isinstance(run, SharedRows) else None
            alone = run.stages if isinstance(run, SharedRows) else (run,)
            yield from [rows] if rows is not None else [self._single(group, s) for s in alone]

    def _steps(self, group: Group, ring: tuple[Tensor, ...]) -> KernelUnit:
        """The kernel of a recurrence."""
        simplify = Simplifier()
        return KernelUnit(group, ring, ring, (step_kernel(ring, simplify, self.profile),), simplify)

    def _on_cpu(
        self, program: Program, group: Group, blocks: CpuKernels, readers: Mapping[Tensor, set[Tensor]]
    ) -> Iterator[KernelUnit | WrittenKernels]:
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
            text = f"/* {kernel_comment(group, k.targets, k.sources)} */\n{k.text}" if k.text else ""
            work = launch_work(group, k.targets, k.sources, k.targets, Simplifier())
            named = ((k.name, launched),)
            yield WrittenKernels(named, text, k.sources, k.targets, k.sizes, k.checks, group.origin, k.targets, work)

    def _attention(self, program: Program, found: Attention) -> KernelUnit | None:
        """The kernel of an attention; None where no schedule fits the device."""
        simplify = Simplifier()
        stages = [s for g in program.groups for s in g.stages if s in found.stages]

        def choose() -> Choice | None:
            return self.chooser.choose(stages, [found.result], lambda: attention_space(found, self.profile, simplify))

        plan = attention_plan(found, self.profile, simplify, choose)
        if plan is None:
            return None
        group = group_of_stages(program, found.stages, found.result)
        return KernelUnit(group, found.stages, (found.result,), (plan,), simplify, found.sources)

    def _rows(
        self, program: Program, group: Group, found: SharedRows, readers: Mapping[Tensor, set[Tensor]]
    ) -> KernelUnit | None:
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
        return KernelUnit(group, kernels.stages, kernels.targets, kernels.plans, simplify)

    def _single(self, group: Group, stage: Tensor, given: Choice | None = None) -> KernelUnit:
        """The kernels that fill *stage*, by the choice that is *given*, else by one that is asked for."""
        simplify = Simplifier()
        if stage in self.by_texels and own_kernel(stage) is None:
            return KernelUnit(group, (stage,), (stage,), (self._texels(stage, simplify),), simplify, single=True)
        decided = given or stage.meta.get(SCHEDULE)
        choice = decided if isinstance(decided, Choice) else None
        if choice is None and own_kernel(stage) is None:
            choice = self.chooser.choose([stage], [stage], lambda: stage_space(stage, simplify, self.profile))
        plans = schedule_stage(stage, simplify, self.profile, choice)
        return KernelUnit(group, (stage,), (stage,), plans, simplify, single=True)

    def _texels(self, stage: Tensor, simplify: Simplifier) -> KernelPlan:
        """The kernel that fills *stage* by whole texels."""
        images = self.chooser.images
        choice = self.chooser.choose(
            [stage], [stage], lambda: texel_space(stage, images, simplify, self.profile), by_texels=True
        )
        return texel_plan(stage, images, simplify, self.profile, choice)


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
    transformed = use_winograd(fuse_parallel_products(operands), profile, winograd)
    return terms_last(pack_products(transformed, profile), profile)


def emit_prepared(
    programs: Sequence[Program],
    chooser: Chooser,
    halves: bool = False,
    memory: str = BUFFER,
    blocks: bool = True,
    images: ChosenImages | None = None,
) -> tuple[str, tuple[FunctionPlan, ...]]:
    """As :func:`emit_programs`, for programs that :func:`prepare` made, or C's preparation.

    Without *blocks* a processor takes the schedules of work-items, among which there is a choice. Matrix units take
    operands from buffers alone. *images* are those of the programs, and their stages are taken as they are; without
    any, what can be an image is one.
    """
    if memory == IMAGE:
        chooser = replace(chooser, profile=replace(chooser.profile, matrix_units=""))
    emitter = _Emitter(chooser, memory, blocks)
    if images is None:
        programs = [_with_schedules(program, chooser, memory) for program in programs]
    alone = chooser.profile.is_cpu or memory == IMAGE  # an image has one shape
    places = [{} if alone else views(p) for p in programs]
    written = [emitter.program(p, own, images) for p, own in zip(programs, places, strict=True)]
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
        return join_before_rows(program)
    if chooser.choices is None:
        return join_rows(split_sums(program, profile))
    apart = {s for a in attentions(program) for s in a.stages}

    def decide(stage: Tensor, parts: Sequence[int]) -> Choice | None:
        if stage in apart:
            return None
        return chooser.choose([stage], [stage], lambda: stage_space(stage, Simplifier(), profile, parts))

    return join_rows(split_sums(program, profile, decide))
