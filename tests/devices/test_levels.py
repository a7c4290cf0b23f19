"""Without hardware: what compiles and does not run here says so, and known-good outputs take the place of its runs."""

import json

import numpy as np
import pytest
import simulated_vendor
from simulated_vendor import NAME, Negation

import byoc
from byoc import relay
from byoc.cli.main import main
from byoc.errors import UserError
from byoc.runtime import ContractError, DeviceError, HardwareLevel, UnavailableError, known_outputs
from byoc.testing import certify

pytestmark = pytest.mark.needs_cc
X = np.arange(6, dtype="float32").reshape(2, 3)
REGION = f"tvmgen_default_{NAME}_main_0"


@pytest.fixture(scope="module", autouse=True)
def vendor(of_this_module):
    simulated_vendor.register()


def compiled(**options):
    x = relay.var("x", shape=(2, 3))
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.sqrt(relay.negative(x))))
    return byoc.compile(mod, targets=[NAME, "c"], **options)


def test_a_region_that_can_only_be_compiled_here_is_one_sentence_when_it_is_to_run(tmp_path):
    library = compiled()
    with pytest.raises(
        DeviceError, match=rf"region {REGION} .* can be compiled on this machine and not run \(compile on"
    ):
        library(X)
    library.save(tmp_path / "m.byoc")
    with pytest.raises(UnavailableError, match="m.byoc: module 0 .* can be compiled on this machine and not run"):
        byoc.runtime.load(tmp_path / "m.byoc")


def test_where_the_host_stands_in_it_computes_what_can_only_be_compiled():
    library = compiled(fallback=True)
    np.testing.assert_array_equal(library(-X), np.sqrt(X))
    assert [(f.subgraph, f.stage) for f in library.fallbacks] == [(REGION, "device")]


@pytest.mark.parametrize("level", [HardwareLevel.EMULATED, HardwareLevel.REAL])
def test_what_runs_here_runs(monkeypatch, level, tmp_path):
    monkeypatch.setattr(Negation, "there", level)
    library = compiled()
    np.testing.assert_array_equal(library(-X), np.sqrt(X))
    library.save(tmp_path / "m.byoc")
    np.testing.assert_array_equal(byoc.runtime.load(tmp_path / "m.byoc")(-X), np.sqrt(X))


@pytest.mark.parametrize("name", [NAME, REGION])
def test_known_outputs_answer_runs_in_their_order_and_are_gone_afterwards(name):
    library = compiled()
    with known_outputs(name, [X], [4 * X]):
        np.testing.assert_array_equal(library(X), np.sqrt(X))
        np.testing.assert_array_equal(library(X), 2 * np.sqrt(X))
        with pytest.raises(DeviceError, match="can be compiled on this machine and not run"):
            library(X)
    with pytest.raises(DeviceError, match="can be compiled on this machine and not run"):
        library(X)
    with known_outputs(name, [X]):
        np.testing.assert_array_equal(library(X), np.sqrt(X))


def test_an_artefact_without_its_device_is_loaded_and_run_on_known_outputs(tmp_path):
    compiled().save(tmp_path / "m.byoc")
    with known_outputs(NAME, [X]):
        np.testing.assert_array_equal(byoc.runtime.load(tmp_path / "m.byoc")(X), np.sqrt(X))


def test_known_outputs_come_before_the_device_and_the_host(monkeypatch):
    monkeypatch.setattr(Negation, "there", HardwareLevel.REAL)
    for library in (compiled(), compiled(fallback=True)):
        np.testing.assert_array_equal(library(-X), np.sqrt(X))
        with known_outputs(NAME, [4 * X], [X]):
            np.testing.assert_array_equal(library(-X), 2 * np.sqrt(X))
            np.testing.assert_array_equal(library.graph_executor().compute([-X])[0], np.sqrt(X))
        np.testing.assert_array_equal(library(-X), np.sqrt(X))
        assert library.fallbacks == []


def test_known_outputs_are_looked_at():
    library = compiled()
    with (
        known_outputs(NAME, [X[:1]]),
        pytest.raises(ContractError, match=rf"known outputs of region {REGION} .*0"),
    ):
        library(X)
    with known_outputs(NAME, [X.astype("float64")]), pytest.raises(ContractError, match="result 0 is "):
        library(X)
    with known_outputs(NAME, [X, X]), pytest.raises(UserError, match="expected 1 arrays, got 2"):
        library(X)


def test_known_outputs_that_nobody_asked_for_are_an_error():
    library = compiled()
    asked = known_outputs(NAME, [X], [X])
    with pytest.raises(UserError, match="1 of 2 runs were never asked for; look in the plan"), asked:
        library(X)
    with pytest.raises(ZeroDivisionError), known_outputs(NAME, [X]):
        raise ZeroDivisionError
    with known_outputs(NAME, [X]):
        with pytest.raises(UserError, match="are given already"), known_outputs(NAME, [X]):
            library(X)
        library(X)


@pytest.mark.parametrize("runs", [(), (X,), ("text",), (3,)])
def test_known_outputs_are_lists_of_arrays(runs):
    with pytest.raises(UserError, match="expected for each run a list of arrays"), known_outputs(NAME, *runs):
        pass


def test_a_backend_that_can_only_compile_is_certified_elsewhere():
    with pytest.raises(UnavailableError, match="'negating_chip' can compile on this machine and not run"):
        certify(NAME, only=["negative"])


def test_targets_and_doctor_show_the_level(capsys):
    assert main(["targets", "--json"]) == 0
    levels = {row["name"]: row["level"] for row in json.loads(capsys.readouterr().out)["targets"]}
    assert (levels[NAME], levels["int8_npu"], levels["c"]) == ("compile only", "emulated", "real")
    assert main(["targets"]) == 0
    assert f"{NAME}  compile only Negates." in capsys.readouterr().out
    main(["doctor", "--json"])
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks[f"target {NAME}"]["about"] == "compile only: Negates." and checks[f"target {NAME}"]["ok"]
    assert checks["device emulated"]["level"] == "emulated" and checks["device host"]["level"] == "real"
