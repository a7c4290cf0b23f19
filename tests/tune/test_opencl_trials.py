"""Candidates on the device: what fails is skipped for its reason, and who wins has to win clearly."""

import dataclasses

import pytest

from byoc import relay
from byoc.codegen.kernel.choice import Choice, SpaceCollector
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.kernel.region import fuse_body
from byoc.codegen.opencl.device.alone import alone
from byoc.codegen.opencl.device.profile import ANY_GPU
from byoc.codegen.opencl.emit import emit_programs
from byoc.codegen.opencl.tuned import TunedFor, bench_of
from byoc.codegen.opencl.tuning.crossover import LARGEST, NEVER, Crossovers, search_crossovers
from byoc.codegen.opencl.tuning.device_batch import DeviceCandidate
from byoc.codegen.opencl.tuning.trials import DeviceTrialRunner, clear_winner
from byoc.codegen.tune.level import LEVELS
from byoc.codegen.tune.record import DROPPED, Trial
from byoc.codegen.tune.trial_batch import Timed
from byoc.codegen.tune.worker_process import WorkerProcess
from byoc.ir.types import TensorType
from byoc.relay.expr import Function, Var

ROUNDS = 3
A, B, C = (Choice.of("item", local=n) for n in (64, 128, 256))


def here(batch):
    """The outcomes of a batch in this process."""
    return batch.run(lambda number: None)


def spaces(function):
    asked = SpaceCollector()
    emit_programs([lower_function(fuse_body(function), "f")], ANY_GPU, choices=asked)
    return list(asked.spaces.values())


def relu(*shape):
    x = Var("x", TensorType(shape))
    return Function([x], relay.nn.relu(relay.add(x, x)))


def trial_runner(run_batch=here, change=lambda choice, source, plan: (source, plan), profile=ANY_GPU):
    """Trials in which *change* is what a driver, or a mistake of ours, does to a candidate."""
    bench = bench_of(TunedFor(profile, False))

    def emit(space, program, only):
        made = bench.emit(space, program, only)
        return DeviceCandidate(*change(only.choice, made.source, made.plan), made.constants)

    return DeviceTrialRunner(bench.alone, emit, ROUNDS, run_batch)


@pytest.mark.needs_opencl
@pytest.mark.parametrize("shape", [(3, 7, 5), (64, 9)], ids=str)
def test_every_work_group_gives_the_same_whether_or_not_it_divides_the_range(shape):
    (space,) = spaces(relu(*shape))
    candidates = LEVELS["heavy"].of(space)
    trials = trial_runner().trials(space, candidates, None)
    assert len(candidates) > 8 and any(315 % int(c["local"] or 1) for c in candidates)
    assert [t.state for t in trials if t.shortest is None] == []


@pytest.mark.needs_opencl
def test_every_schedule_of_a_convolution_gives_the_same():
    x, w = Var("x", TensorType((1, 5, 11, 9))), Var("w", TensorType((13, 5, 3, 3)))
    conv = relay.nn.relu(relay.nn.conv2d(x, w, kernel_size=(3, 3), padding=(1, 1)))
    space = spaces(Function([x, w], conv))[-1]
    some = {}
    for _, choice in space.ranked:  # products of every tile: tests/codegen/test_opencl_products.py
        some.setdefault(choice.kind, []).append(choice)
    assert set(some) == {"product", "tree", "tile", "item"}
    trials = trial_runner().trials(space, [c for choices in some.values() for c in choices[:2]], None)
    assert len(trials) == 8 and [t.state for t in trials if t.shortest is None] == []


@pytest.mark.needs_opencl
def test_softmax_gives_the_same_by_rows_and_by_groups():
    x = Var("x", TensorType((6, 129)))
    (space,) = spaces(Function([x], relay.nn.softmax(x)))
    candidates = [
        *LEVELS["fast"].of(space),
        *(c for _, c in space.ranked if c["local" if c.kind == "row" else "lanes"] == 8),
    ]
    assert {c.kind for c in candidates} == {"rows", "row"}
    assert [t.state for t in trial_runner().trials(space, candidates, None) if t.shortest is None] == []


@pytest.mark.needs_opencl
def test_attention_gives_the_same_by_other_tiles():
    q, k, v = (Var(name, TensorType((2, 40, 24))) for name in "qkv")
    scores = relay.nn.softmax(relay.nn.batch_matmul(q, k, transpose_b=True), axis=-1)
    found = spaces(Function([q, k, v], relay.nn.batch_matmul(scores, v, transpose_b=False)))
    (space,) = [q for q in found if q.expected.kind == "attention"]
    assert found == [space], "what attention computes is asked about once"
    trials = trial_runner().trials(space, [c for _, c in space.ranked][:3], None)
    assert len(trials) == 3 and [t.state for t in trials if t.shortest is None] == []


@pytest.mark.needs_opencl
def test_a_candidate_that_is_refused_too_large_or_wrong_is_skipped_for_its_reason():
    (space,) = spaces(relu(300, 7))
    candidates = [c for _, c in space.ranked][:5]

    def change(choice, source, plan):
        if choice == candidates[1]:
            return source.replace("__kernel", "__kernel nonsense"), plan
        if choice == candidates[2]:
            (launch,) = plan.launches
            large = dataclasses.replace(launch.variants[0], local=1 << 16)
            return source, dataclasses.replace(plan, launches=(dataclasses.replace(launch, variants=(large,)),))
        return (source.replace("0.0f", "0.5f") if choice == candidates[3] else source), plan

    trials = trial_runner(change=change).trials(space, candidates, None)
    assert [t.choice for t in trials] == candidates
    assert "refused the generated kernels" in trials[1].state
    assert "work-items a group, and 65536 are chosen" in trials[2].state
    assert trials[3].state == "failed: its result is another one"
    assert trials[0].shortest and trials[4].shortest
    assert clear_winner(trials, space.expected) in (candidates[0], candidates[4])


@pytest.mark.needs_opencl
def test_a_candidate_that_never_ends_or_kills_its_process_does_not_stop_the_others():
    (space,) = spaces(relu(300, 7))
    candidates = [c for _, c in space.ranked][:3]

    def change(choice, source, plan):
        endless = "volatile int forever = 1; while (forever) ;"
        return (source.replace("const int", f"{endless} const int", 1) if choice == candidates[1] else source), plan

    with WorkerProcess(limit=6.0) as worker:
        trials = trial_runner(worker.run, change).trials(space, candidates, None)
    assert trials[1].state == "failed: it did not end within 6 s"
    assert trials[0].shortest and trials[2].shortest


def test_a_kernel_alone_has_the_same_search_space():
    (space,) = spaces(relu(300, 7))
    again = SpaceCollector()
    emit_programs([alone(space.stages, space.targets, "again")], ANY_GPU, choices=again)
    assert list(again.spaces) == [space.kernel]


@pytest.mark.parametrize(
    ("trials", "winner"),
    [
        ([Trial(A, 1.0, 1.1), Trial(B, 0.8, 0.9), Trial(C, 0.9, 1.0)], B),
        ([Trial(A, 1.09, 1.1), Trial(B, 1.06, 1.07)], A),  # no more than noise
        ([Trial(A, 1.0, 1.1), Trial(B, 0.8, 1.2)], A),  # once fast, mostly slow
        ([Trial(A, 1.0, 1.4), Trial(B, 0.8, 1.1)], A),  # as far apart as the times of the model's choice are
        ([Trial(A, 1.0, 1.1), Trial(B, 0.6, 0.98), Trial(C, 0.8, 0.9)], C),  # the luckiest is not the fastest
        ([Trial(A, 1.0, 1.1), Trial(B, 0.5, 0.5, DROPPED)], A),
        ([Trial(A, state="failed: no"), Trial(B, 2.0, 2.0), Trial(C, 1.0, 1.0)], C),
        ([Trial(A, state="failed: no")], A),
        ([], A),
    ],
)
def test_the_models_choice_stays_unless_another_is_clearly_faster(trials, winner):
    assert clear_winner(trials, A) == winner


def crossovers(tree, serial):
    """What the search finds where both schedules take such times, by the numbers of outputs and terms."""
    tried = []

    def run(batch):
        shape = batch.inputs[0].shape
        tried.append(shape)
        return [o if isinstance(o := f(*shape), str) else Timed(o, o) for f in (tree, serial)]

    bench = bench_of(TunedFor(ANY_GPU, False))
    return search_crossovers(bench.emit_with, run), tried


@pytest.mark.needs_opencl
def test_thresholds_lie_where_the_faster_schedule_changes():
    def tree(outputs, terms):
        return outputs * 300.0

    def serial(outputs, terms):
        return 64 * terms + outputs * terms / 100

    found, tried = crossovers(tree, serial)
    assert not found.failures and len(tried) <= 4 * 5
    assert found.thresholds["long_reduction"] == 512 == found.thresholds["shortest_tree"]
    assert found.thresholds["few_outputs"] == 255
    assert Crossovers.from_json(found.to_json()) == found
    assert {p.name for p in found.points} == set(found.thresholds)


@pytest.mark.needs_opencl
def test_where_the_serial_schedule_always_wins_trees_are_never_taken():
    found, _ = crossovers(lambda *shape: 2.0, lambda *shape: 1.0)
    assert found.thresholds["shortest_tree"] == found.thresholds["long_reduction"] == NEVER
    assert found.thresholds["few_outputs"] == 15
    found, _ = crossovers(lambda *shape: 1.0, lambda *shape: 2.0)
    assert found.thresholds["shortest_tree"] == 16 and found.thresholds["enough_rows"] == NEVER > 1 << LARGEST


@pytest.mark.needs_opencl
def test_a_threshold_that_cannot_be_measured_stays_what_it_was_and_says_why():
    found, _ = crossovers(lambda *shape: "failed: no device", lambda *shape: 1.0)
    assert found.thresholds == {} and set(found.failures.values()) == {"failed: no device"}
    for damaged in (None, [], {"thresholds": {"few_outputs": 0}, "points": []}, {"thresholds": {}, "points": [{}]}):
        assert Crossovers.from_json(damaged) is None
