"""Programs with choices that were tuned on the device: which kernels are tried there, and how each is made alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from byoc.codegen.kernel.choice import Choices, SearchSpace
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.region import constant_arrays
from byoc.codegen.opencl.cpu.block_space import BlockSearchSpace
from byoc.codegen.opencl.cpu.machine import prepared_for
from byoc.codegen.opencl.device.alone import alone
from byoc.codegen.opencl.device.choosing import Chooser, KernelSearchSpace
from byoc.codegen.opencl.device.profile import DeviceProfile, with_rates
from byoc.codegen.opencl.device.thresholds import Thresholds
from byoc.codegen.opencl.emit import emit_prepared
from byoc.codegen.opencl.images.choice import BUFFER, IMAGE
from byoc.codegen.opencl.images.trial import Form
from byoc.codegen.opencl.images.trial_program import between_images, copies_of, images_between
from byoc.codegen.opencl.tuning.bench import DeviceBench
from byoc.codegen.opencl.tuning.device_batch import DeviceCandidate
from byoc.codegen.tune.kernel_program import kernel_program
from byoc.codegen.tune.tuner import Tuner
from byoc.errors import DeviceError
from byoc.runtime.opencl.devices import open_device
from byoc.runtime.opencl.launches import FunctionPlan
from byoc.runtime.opencl.peaks import device_peak

MEASURED_FROM = "normal"  # the level from which on the device's thresholds are measured where they are not known
Prepare = Callable[[Choices | None], list[Program]]


@dataclass(frozen=True)
class TunedFor:
    """For which device: its *profile*, which *device* it is, whether kernels have *halves*, *thresholds* as given.

    *memory* is what tensors lie in, where they can: ``buffer`` or ``image``.
    """

    profile: DeviceProfile
    halves: bool
    device: str = ""
    thresholds: object = ""
    memory: str = BUFFER


def tuned(prepare: Prepare, wanted: TunedFor, tuner: Tuner) -> tuple[list[Program], Form]:
    """What *prepare* makes with the choices of *tuner*, and its source and plans.

    Which tensors are images is decided before, and stays: measured thresholds, which are those of kernels over buffers,
    are for these alone.

    Raises DeviceError where there is no device to try kernels on.
    """
    profile = wanted.profile
    bench = bench_of(wanted)
    if wanted.memory == BUFFER:
        profile = _with_thresholds(wanted, bench, tuner)
        bench = bench_of(replace(wanted, profile=profile))

    def make(choices: Choices) -> tuple[list[Program], Form]:
        programs = prepare(choices)
        return programs, emit_prepared(programs, Chooser(profile, choices), wanted.halves, wanted.memory)

    return tuner.settled(make, bench, lambda threads: bench.trial_runner(tuner.level.rounds))


def _with_thresholds(wanted: TunedFor, bench: DeviceBench, tuner: Tuner) -> DeviceProfile:
    """The profile with thresholds as they were given, else as they are measured on the device."""
    found = tuner.measured(lambda: bench.crossovers(measure=tuner.level.covers(MEASURED_FROM)))
    default = wanted.profile.thresholds
    thresholds = Thresholds.of(wanted.thresholds, Thresholds.of(found.thresholds, default))
    tuner.report.thresholds[bench.place] = thresholds.to_json()
    tuner.report.notes += [f"{bench.place}: {name} was not measured: {why}" for name, why in found.failures.items()]
    return replace(wanted.profile, thresholds=thresholds)


def measured_rates(profile: DeviceProfile, tuner: Tuner, device: str = "") -> DeviceProfile:
    """*profile* with the rates of the GPU here, measured now where nobody has and *tuner*'s level measures a device.

    Raises DeviceError where there is no device.
    """
    opened = open_device(device)
    if profile.is_cpu or opened.info.kind == "cpu" or not tuner.level.covers(MEASURED_FROM):
        return profile
    if profile.rates is None:
        try:
            profile = with_rates(profile, tuner.measured(lambda: device_peak(opened)))
        except DeviceError as error:
            tuner.report.notes.append(f"{opened.info.name}: the cost model is for an H100's rates: {error}")
    return profile


def bench_of(wanted: TunedFor) -> DeviceBench:
    """Where kernels are tried."""
    profile, halves = wanted.profile, wanted.halves

    def emit_with(program: Program, thresholds: Mapping[str, int]) -> tuple[str, FunctionPlan]:
        forced = replace(profile, thresholds=Thresholds.of(thresholds, profile.thresholds))
        source, (plan,) = emit_prepared([program], Chooser(forced), halves, blocks=False)
        return source, plan

    def emit(space: SearchSpace, program: Program, choices: Choices) -> DeviceCandidate:
        return _candidate(space, program, Chooser(profile, choices), halves)

    facts = {
        "kind": profile.kind,
        "halves": str(halves),
        "products": profile.products,
        "lanes": str(profile.float_lanes),
    }
    return DeviceBench(open_device(wanted.device), facts, _alone, emit, emit_with)


def _alone(space: SearchSpace) -> Program:
    """The program of the kernel that *space* is about; of a stage that C's schedules have yet to prepare, as it is."""
    if isinstance(space, KernelSearchSpace):
        if space.images:
            return between_images(space.stages, space.targets, "candidate", space.images)
        return alone(space.stages, space.targets, "candidate")
    if isinstance(space, BlockSearchSpace) and space.group is not None:
        return alone(space.group.stages, space.targets, "candidate", space.group.local, scheduled=True)
    return kernel_program(space, "candidate")


def _candidate(space: SearchSpace, program: Program, chooser: Chooser, halves: bool) -> DeviceCandidate:
    """The candidate of *program*, made by :func:`_alone`, that *chooser* chooses."""
    if isinstance(space, KernelSearchSpace) and space.images:
        images = images_between(program, space.by_texels)
        source, (plan,) = emit_prepared([program], chooser, halves, IMAGE, blocks=False, images=images)
        return DeviceCandidate(source, plan, uncounted=copies_of(program, plan))
    machine = chooser.profile.machine
    if machine is not None and not isinstance(space, KernelSearchSpace | BlockSearchSpace):
        program = prepared_for(program, machine, chooser.choices)
    blocks = not isinstance(space, KernelSearchSpace)
    source, (plan,) = emit_prepared([program], chooser, halves, blocks=blocks)
    arrays = constant_arrays([program])
    return DeviceCandidate(source, plan, tuple(arrays[s.name].numpy() for s in program.signature.constants))
