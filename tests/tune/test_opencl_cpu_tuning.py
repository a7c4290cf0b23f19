"""Tuning for processors under OpenCL: what there is to choose, that every choice is right, and the road of a model."""

import dataclasses
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from opencl_network import example, network
from test_opencl_tuned import kernels_of, tuning_of

import byoc
from byoc import relay
from byoc.codegen.kernel.choice import Choice, SpaceCollector
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.opencl.cpu.block_space import ONE, BlockSearchSpace
from byoc.codegen.opencl.cpu.machine import prepared_for
from byoc.codegen.opencl.device.alone import alone
from byoc.codegen.opencl.device.profile import ANY_CPU
from byoc.codegen.opencl.emit import emit_programs
from byoc.codegen.opencl.tuned import TunedFor, bench_of
from byoc.codegen.opencl.tuning.device_batch import DeviceCandidate
from byoc.codegen.opencl.tuning.trials import DeviceTrialRunner
from byoc.codegen.tune.level import LEVELS
from byoc.codegen.tune.record import DROPPED
from byoc.codegen.tune.trial_batch import Timed
from byoc.codegen.tune.tuner import Tuner, own_database
from byoc.ir.types import Any, TensorType
from byoc.relay.expr import Function, Var, const
from byoc.relay.op.attributes.recurrent import RNNSequenceAttrs
from byoc.runtime.opencl.launches import FunctionPlan

RNG = np.random.default_rng(5)


def convolution(channels=8, outputs=16, side=13):
    x = Var("x", TensorType((1, side, side, channels)))
    w = const(RNG.standard_normal((3, 3, channels, outputs)).astype("float32"))
    layout = {"data_layout": "NHWC", "kernel_layout": "HWIO", "kernel_size": (3, 3), "padding": (1, 1)}
    return Function([x], relay.nn.relu(relay.nn.conv2d(x, w, **layout)))


def product(rows=19, terms=33, columns=50):
    x = Var("x", TensorType((rows, terms)))
    return Function([x], relay.nn.matmul(x, const(RNG.standard_normal((terms, columns)).astype("float32"))))


def pointwise(*shape):
    x = Var("x", TensorType(shape))
    return Function([x], relay.nn.relu(relay.add(x, x)))


def pool(side=12):
    x = Var("x", TensorType((1, side, side, 24)))
    return Function([x], relay.nn.max_pool2d(x, pool_size=(2, 2), strides=(2, 2), layout="NHWC"))


def spaces(function, profile=ANY_CPU):
    asked = SpaceCollector()
    program = prepared_for(lower_function(fuse_body(function), "f"), profile.machine, asked)
    emit_programs([program], profile, choices=asked)
    return list(asked.spaces.values())


def kinds(space):
    return {choice.kind for _, choice in space.ranked}


FUNCTIONS = [convolution(), product(), pointwise(3, 1000, 7), pool()]


def test_processors_have_tiles_winograds_blocks_work_groups_and_vectors_to_choose_from():
    found = [space for function in FUNCTIONS for space in spaces(function)]
    assert {kind for space in found for kind in kinds(space)} >= {"tile", "winograd", "direct", "block", "item"}
    blocks = [space for space in found if isinstance(space, BlockSearchSpace)]
    assert len(blocks) >= len(FUNCTIONS)
    for space in blocks:
        shares = {c["shares"] for _, c in space.ranked if c.kind == "block"}
        assert shares == {ONE, 1, 2, 4, 8, 16} and space.expected["shares"] == 4
    assert {c["lanes"] for s in blocks for _, c in s.ranked if c.kind == "block"} == {4, 8}
    tiles = next(space for space in found if "tile" in kinds(space))
    assert len({(c["rows"], c["vectors"]) for _, c in tiles.ranked}) > 10


def test_levels_try_ever_more_of_it():
    counts = {name: 0 for name in LEVELS}
    for space in (space for function in FUNCTIONS for space in spaces(function)):
        tried = [level.of(space) for level in LEVELS.values()]
        assert all(some[0] == space.expected and len(set(some)) == len(some) for some in tried)
        assert all(set(less) <= set(more) for less, more in itertools.pairwise(tried))
        for name, some in zip(LEVELS, tried, strict=True):
            counts[name] += len(some)
    assert counts["none"] < counts["fast"] < counts["normal"] < counts["wide"] < counts["heavy"]


def test_what_has_free_sizes_and_steps_is_the_models_choice():
    assert not [s for s in spaces(pointwise(Any("n"), 4)) if isinstance(s, BlockSearchSpace)]
    asked = SpaceCollector()
    inputs = [Var(n, TensorType(s)) for n, s in (("x", (5, 1, 8)), ("r", (8, 8)), ("h", (1, 8)))]
    function = Function(inputs, relay.nn.rnn_sequence(inputs, RNNSequenceAttrs())[0])
    emit_programs([prepared_for(lower_function(function, "f"), ANY_CPU.machine)], ANY_CPU, choices=asked)
    assert not [s for s in asked.spaces.values() if isinstance(s, BlockSearchSpace)]


def runner(run_batch=lambda batch: batch.run(lambda number: None)):
    bench = bench_of(TunedFor(ANY_CPU, False))
    return DeviceTrialRunner(bench.alone, bench.emit, 3, run_batch)


@pytest.mark.needs_opencl
@pytest.mark.parametrize("function", FUNCTIONS, ids=["conv", "product", "relu", "pool"])
def test_every_kind_of_choice_gives_what_the_models_gives(function):
    for space in spaces(function):
        some: dict[object, Choice] = {}
        for _, choice in space.ranked:
            own = dict(choice.parameters)
            some.setdefault((choice.kind, own.get("lanes"), own.get("shares"), own.get("vectors")), choice)
        candidates = list(dict.fromkeys([space.expected, *some.values()]))[:14]
        trials = runner().trials(space, candidates, None)
        assert [t.state for t in trials if t.shortest is None] == [] and len(trials) >= 2


@pytest.mark.needs_opencl
def test_tiles_of_free_sizes_are_tried_at_one_size():
    x = Var("x", TensorType((Any("n"), 33)))
    function = Function([x], relay.nn.matmul(x, const(RNG.standard_normal((33, 50)).astype("float32"))))
    (space,) = spaces(function)
    trials = runner().trials(space, LEVELS["fast"].of(space), None)
    assert len(trials) == 3 and [t.state for t in trials if t.shortest is None] == []


def test_who_wins_by_luck_has_to_win_again():
    (space,) = [s for s in spaces(pointwise(300, 7)) if isinstance(s, BlockSearchSpace)]
    candidates = [c for _, c in space.ranked][:3]
    batches = []

    def run(batch):
        batches.append(len(batch.compiled))
        first = len(batches) == 1
        return [Timed(1.0, 1.1), *(Timed(t, t + 0.1) for t in ((0.5, 0.8) if first else (1.2,)))]

    trials = _without_device(run).trials(space, candidates, None)
    assert batches == [3, 2, 2]
    assert [t.state for t in trials[1:]] == [DROPPED, DROPPED]


def _without_device(run_batch):
    def whole(space):
        return alone(space.group.stages, space.targets, "candidate")

    def emit(space, program, choices):
        choices.choose(space)
        return DeviceCandidate("", FunctionPlan(program.signature, (), ()))

    return DeviceTrialRunner(whole, emit, 3, run_batch)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A library for this device as it is, tuned with empty caches, with the folder of these."""
    folder = tmp_path_factory.mktemp("first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BYOC_CACHE_DIR", str(folder))
        patient = dataclasses.replace(LEVELS["fast"], seconds=3600.0)  # a busy machine reaches every kernel too
        options = {"opencl": {"schedules": "cpu"}}
        library = byoc.compile(
            network(), targets=["opencl"], tune=Tuner(patient, own_database()), backend_options=options
        )
        yield library, folder, options


@pytest.mark.needs_opencl
def test_a_model_is_tuned_and_gives_what_it_gave(first, tmp_path):
    library, _, options = first
    report = tuning_of(library)
    assert report["trials"] > 10 and len(report["tuned"]) > 3
    assert {t["choice"]["kind"] for row in report["tuned"] for t in row["trials"]} >= {"tile", "block"}
    assert not [t for row in report["tuned"] for t in row["trials"] if t["state"].startswith("failed")]
    want = byoc.compile(network(), targets=["opencl"], backend_options=options).run({"x": example()})[0]
    np.testing.assert_allclose(library.run({"x": example()})[0], want, rtol=1e-4, atol=1e-6)
    library.save(tmp_path / "tuned.byoc")
    np.save(tmp_path / "x.npy", example())
    code = (
        "import sys, numpy as np, byoc.runtime as r; l = r.load(sys.argv[1]);"
        "np.save(sys.argv[3], np.asarray(l.run({'x': np.load(sys.argv[2])})[0]))"
    )
    files = [str(tmp_path / n) for n in ("tuned.byoc", "x.npy", "y.npy")]
    subprocess.run([sys.executable, "-c", code, *files], check=True, timeout=300)
    np.testing.assert_allclose(np.load(files[2]), want, rtol=1e-4, atol=1e-6)


@pytest.mark.needs_opencl
def test_the_command_in_another_process_tries_nothing(first, tmp_path):
    library, folder, _ = first
    (tmp_path / "m.onnx").write_bytes(network())
    words = [sys.executable, "-m", "byoc", "compile", str(tmp_path / "m.onnx"), "-t", "opencl", "--json"]
    words += ["--set", "opencl.schedules=cpu", "--set", "opencl.mode=tuning=fast", "-o", str(tmp_path / "m.byoc")]
    environment = {**os.environ, "BYOC_CACHE_DIR": str(folder)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["tuning"]
    kept = {row["kernel"] for row in tuning_of(library)["tuned"]}  # some of kernels that a winner left none of
    known = {row["kernel"] for row in report["known"]}
    assert report["trials"] == 0 and len(known) > 3 and known <= kept
    assert kernels_of(byoc.load(tmp_path / "m.byoc")) == kernels_of(library)


@pytest.mark.needs_opencl
def test_candidates_run_on_the_device_that_is_asked_for(monkeypatch):
    seen = []
    bench = bench_of(TunedFor(ANY_CPU, False, "0"))
    (space,) = [s for s in spaces(pointwise(300, 7)) if isinstance(s, BlockSearchSpace)]
    with bench.trial_runner(3) as attempt:
        monkeypatch.setattr(attempt.__self__, "run_batch", lambda b: seen.append(b.device) or [Timed(1.0, 1.0)])
        attempt(space, [space.expected], None)
    assert seen == ["0"]
