"""Whatever a model file holds, the importer reads it or says what is wrong: found cases again, and new ones."""

import os
import pathlib
import signal

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from fuzz.importer import coverage
from fuzz.importer.mutations import mutated
from fuzz.importer.run import fuzz, make_input
from fuzz.importer.seeds import seed_models
from fuzz.importer.worker import RIGHT, SECONDS, Outcome, Worker, overtime, read_one

CORPUS = sorted((pathlib.Path(__file__).parent / "importer_corpus").glob("*.onnx"))


def tiny() -> bytes:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, [2])],
        [value("y", TensorProto.FLOAT, [2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_case_that_was_found_is_read_or_refused(path: pathlib.Path) -> None:
    assert read_one(path.read_bytes())[0] in RIGHT


def test_inputs_are_the_same_every_time_and_some_are_damaged() -> None:
    seeds = [tiny()]
    made = [make_input(seeds, 5, number) for number in range(50)]
    assert made == [make_input(seeds, 5, number) for number in range(50)]
    assert len(set(made)) > 20


def test_damaged_models_end_in_errors_of_ours_alone() -> None:
    seeds = [tiny()]
    worker = Worker(lambda number: make_input(seeds, 7, number))
    outcomes = list(worker.outcomes(range(300)))
    assert [o for o in outcomes if o.is_finding] == []
    assert {o.kind for o in outcomes} >= {"read", "refused"}


def test_a_process_that_dies_is_a_finding_and_the_next_input_is_read() -> None:
    def make(number: int) -> bytes:
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return tiny()

    outcomes = list(Worker(make).outcomes(range(3)))
    assert outcomes[0] == Outcome(0, "read") and outcomes[2] == Outcome(2, "read")
    assert outcomes[1].is_finding and outcomes[1].kind == "killed by signal 9"


def test_an_input_without_end_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.importer.worker.SECONDS", 0.2)
    monkeypatch.setattr("byoc.relay.frontend.onnx.import_onnx", _endless)
    (outcome,) = Worker(lambda number: tiny()).outcomes(range(1))
    assert outcome.is_finding and outcome.kind == "hang"


def _endless(data: bytes) -> None:
    while True:
        onnx.ModelProto()


@pytest.mark.slow
def test_five_thousand_new_inputs_are_read_or_refused(tmp_path: pathlib.Path) -> None:
    counts, findings = fuzz(5000, seed=11, seconds=300, keep=tmp_path)
    assert findings == []
    assert sum(counts.values()) > 1000


@pytest.fixture(scope="module")
def seeds() -> list[bytes]:
    read_one(tiny())  # the importer itself is imported before the clock runs
    return seed_models()


@pytest.mark.slow
@settings(max_examples=2000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False), place=st.integers(0, 1 << 30), other=st.integers(0, 1 << 30))
def test_two_thousand_inputs_whose_damage_hypothesis_chooses_are_read_or_refused(seeds, rng, place, other) -> None:
    data = mutated(rng, seeds[place % len(seeds)], seeds[other % len(seeds)])
    before = signal.signal(signal.SIGPROF, overtime)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of the processor
    try:
        kind, *shown = read_one(data)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert kind in RIGHT, shown


@pytest.mark.slow
@pytest.mark.skipif(coverage.is_missing(), reason=coverage.MISSING)
def test_ten_thousand_inputs_that_coverage_chooses_are_read_or_refused(tmp_path: pathlib.Path, seeds) -> None:
    run = coverage.fuzz_by_coverage(10_000, 17, 400, tmp_path, seeds)
    assert run.findings == {}
    assert sum(run.counts.values()) > 500 and run.branches > 100
