"""Real kernels: what names them, all their tiles compiled and compared, candidates that fail. Times are the test's."""

import dataclasses
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.c.backend import build_library, workbench
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.c.winograd.options import WinogradOptions
from byoc.codegen.kernel.choice import Fixed, SpaceCollector
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.tune.arrays import copies_of
from byoc.codegen.tune.kernel_program import kernel_program
from byoc.codegen.tune.level import LEVELS
from byoc.codegen.tune.record import DROPPED, MEASURED
from byoc.codegen.tune.trial_batch import Timed, agrees, run_batch
from byoc.codegen.tune.trials import BATCH_SIZE, HostBench, TrialRunner, winner
from byoc.errors import CompileError
from byoc.ir.module import IRModule
from byoc.relay.expr import Function
from byoc.relay.transform import FoldConstant, InferType
from byoc.runtime.core.ndarray import NDArray

MACHINE = Machine(64, 24, 32)
DIRECT = WinogradOptions(())


def weights(*shape, dtype="float32"):
    return relay.const(np.random.default_rng(3).standard_normal(shape).astype(dtype), dtype)


def dense(m=13, k=21, n=37, name="x", dtype="float32", relu=True):
    x = relay.var(name, shape=(m, k), dtype=dtype)
    y = relay.nn.dense(x, weights(n, k, dtype=dtype))
    return relay.nn.relu(y) if relu else y


def conv(channels=16, stride=1, padding=1):
    x = relay.var("x", shape=(1, 9, 11, channels))
    return relay.nn.conv2d(
        x,
        weights(3, 3, channels, 20),
        kernel_size=(3, 3),
        channels=20,
        padding=(padding,) * 4,
        strides=(stride,) * 2,
        data_layout="NHWC",
        kernel_layout="HWIO",
    )


def product(b=3, m=10, k=12, n=32):
    return relay.nn.batch_matmul(relay.var("x", shape=(b, m, k)), relay.var("y", shape=(b, k, n)), transpose_b=False)


def lowered(body, symbol="f"):
    mod = FoldConstant()(InferType()(IRModule.from_expr(Function(relay.analysis.free_vars(body), body))))
    return lower_function(fuse_body(mod["main"]), symbol)


def space_of(body, machine=MACHINE, allowed=DIRECT):
    """The first space about *body*; about its tile, where Winograd's method is not *allowed*."""
    asked = SpaceCollector()
    prepare(lowered(body), machine, asked, allowed)
    return next(iter(asked.spaces.values()))


def test_the_text_of_a_kernel_knows_no_names():
    assert space_of(dense(name="x")).kernel == space_of(dense(name="another")).kernel


def test_the_text_of_a_kernel_distinguishes_what_takes_another_time():
    kernels = [
        dense(),
        dense(m=14),
        dense(k=22),
        dense(n=38),
        dense(dtype="float64"),
        dense(relu=False),
        conv(),
        conv(channels=17),
        conv(stride=2),
        conv(padding=0),
        product(),
        product(b=4),
    ]
    texts = [space_of(body).kernel for body in kernels]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("body", [dense(), conv(), product()], ids=["dense", "conv", "product"])
def test_the_model_ranks_every_tile_once_and_takes_the_first(body):
    space = space_of(body)
    costs = [cost for cost, _ in space.ranked]
    choices = [c for _, c in space.ranked]
    assert costs == sorted(costs) and len(set(choices)) == len(choices) > 10
    assert all(int(c["rows"]) * int(c["vectors"]) < MACHINE.registers for c in choices)

    def tiles_by(answerer):
        return [s.meta.get("tile") for g in prepare(lowered(body), MACHINE, answerer, DIRECT).groups for s in g.stages]

    assert tiles_by(SpaceCollector()) == tiles_by(Fixed({space.kernel: space.expected}))
    assert tiles_by(SpaceCollector()) != tiles_by(Fixed({space.kernel: choices[-1]}))


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    "body",
    [dense(), conv(stride=2), product()],
    ids=["dense", "conv", "product"],
)
def test_every_tile_gives_the_same_numbers_on_awkward_sizes(body):
    compiler = find_compiler()
    space = space_of(body, compiler.machine)
    programs = [
        prepare(lowered(body, f"f{k}"), compiler.machine, Fixed({space.kernel: choice}), DIRECT)
        for k, (_, choice) in enumerate(space.ranked[:: max(len(space.ranked) // 12, 1)])
    ]
    module = build_library(programs, compiler)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s.shape).astype(s.dtype) for s in programs[0].signature.inputs]
    results = []
    for program in programs:
        results.append(np.zeros(program.signature.outputs[0].shape, "float32"))
        module[program.symbol](*inputs, results[-1])
    assert np.any(results[0]) and len(results) > 10
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


class Ticks:
    """A clock on which a second passes between two looks."""

    def __init__(self):
        self.seconds = itertools.count()

    def __call__(self):
        return float(next(self.seconds))


def timed_by_ticks(batch):
    return run_batch(batch, clock=Ticks())


@pytest.mark.needs_cc
def test_candidates_are_compiled_in_one_library_and_timed():
    compiler = find_compiler()
    bench = workbench(compiler, ())
    built = []
    counting = dataclasses.replace(bench, build=lambda programs: built.append(len(programs)) or bench.build(programs))
    space = space_of(dense(), compiler.machine)
    candidates = LEVELS["fast"].of(space)
    trials = TrialRunner(counting, 4, timed_by_ticks).trials(space, candidates)
    assert built == [len(candidates)] and [t.choice for t in trials] == candidates
    assert all(t.state in (MEASURED, DROPPED) and t.shortest > 0 for t in trials)


def test_many_candidates_are_tried_in_batches_and_the_fastest_of_all_against_each_other():
    batches = []

    def run(batch):
        batches.append([r.signature.symbol for r in batch.compiled])
        return [Timed(seconds[r.library], seconds[r.library]) for r in batch.compiled]

    space = space_of(dense(m=12, n=64))
    candidates = [choice for _, choice in space.ranked][: 2 * BATCH_SIZE]
    seconds = {c.text().encode(): 5.0 - k / 100 for k, c in enumerate(candidates)}
    seconds[candidates[BATCH_SIZE + 3].text().encode()] = 1.0

    class Made(TrialRunner):
        def _built(self, space, candidates, rest):
            program = kernel_program(space, "f")
            modules = (SimpleNamespace(library=c.text().encode(), constant_arrays=Zeros()) for c in candidates)
            return {c: (program, module) for c, module in zip(candidates, modules, strict=True)}

    trials = Made(HostBench(None, None, None), 1, run).trials(space, candidates)
    assert [len(h) for h in batches] == [BATCH_SIZE, BATCH_SIZE, 2, 4] and [t.choice for t in trials] == candidates
    assert winner(trials, candidates[0]) == candidates[BATCH_SIZE + 3]
    assert sum(t.state == MEASURED for t in trials) == 4


class Zeros(dict):
    def __missing__(self, name):
        return NDArray(np.zeros(1, "float32"))


@pytest.mark.needs_cc
def test_a_candidate_that_does_not_compile_is_recorded_and_the_others_are_timed():
    compiler = find_compiler()
    bench = workbench(compiler, ())

    def build(programs):
        if any(p.symbol == "candidate_1" for p in programs):
            raise CompileError("no register is left")
        return bench.build(programs)

    space = space_of(dense(), compiler.machine)
    trials = TrialRunner(dataclasses.replace(bench, build=build), 3, timed_by_ticks).trials(
        space, LEVELS["fast"].of(space)
    )
    assert trials[1].state == "failed: no register is left" and trials[1].shortest is None
    assert trials[0].shortest is not None and trials[2].shortest is not None


@pytest.mark.needs_cc
def test_a_candidate_with_another_result_is_not_timed():
    compiler = find_compiler()
    bench = workbench(compiler, ())

    def build(programs):
        negative = tuple((t, NDArray(-a.numpy())) for t, a in programs[1].constants)
        return bench.build([programs[0], dataclasses.replace(programs[1], constants=negative), *programs[2:]])

    space = space_of(dense(relu=False), compiler.machine)
    trials = TrialRunner(dataclasses.replace(bench, build=build), 3, timed_by_ticks).trials(
        space, LEVELS["fast"].of(space)
    )
    assert trials[1].state == "failed: its result is another one"
    assert trials[0].shortest is not None and trials[2].shortest is not None


def test_results_agree_within_rounding_only():
    a = np.array([1.0, -2.0, 100.0], "float32")
    assert agrees(a, a) and agrees(a + 0.5, a)
    assert not agrees(a + 2.0, a) and not agrees(np.array([1.0, -2.0, np.nan], "float32"), a)
    assert not agrees(a[:2], a)


@pytest.mark.parametrize("kilobytes, copies", [(64, 16), (512, 4), (4096, 9), (0, 1)])
def test_weights_are_copied_so_often_that_none_is_in_the_near_cache_when_its_turn_comes(kilobytes, copies):
    weight = np.arange(kilobytes * 256, dtype="float32")
    made = copies_of([weight], {1: 48 << 10, 2: 1 << 20, 3: 32 << 20})
    assert len(made) == copies
    assert len({arrays[0].ctypes.data for arrays in made}) == copies
    for arrays in made:
        np.testing.assert_array_equal(arrays[0], weight)
