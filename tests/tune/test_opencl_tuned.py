"""Tuning of OpenCL kernels from end to end: byoc.compile, its modes, the commands, and a second process."""

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from opencl_network import example, network

import byoc
from byoc.cli.main import main
from byoc.codegen.opencl.tuning.trials import WON
from byoc.codegen.tune.level import LEVELS
from byoc.codegen.tune.tuner import Tuner, own_database
from byoc.errors import UserError

pytestmark = pytest.mark.needs_opencl
GPU = {"opencl": {"schedules": "gpu"}}


def opencl_modules(module):
    found = [module] if module.type_key == "opencl" else []
    return found + [m for child in module.imports for m in opencl_modules(child)]


def kernels_of(library):
    """The hash of source and plans of all OpenCL modules."""
    texts = [m.get_source(fmt) for m in opencl_modules(library.module) for fmt in ("", "plan")]
    assert texts
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def tuning_of(library):
    return library.report["tuning"]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A library that was tuned with empty caches, with the folder of these."""
    folder = tmp_path_factory.mktemp("first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BYOC_CACHE_DIR", str(folder))
        patient = dataclasses.replace(LEVELS["fast"], seconds=3600.0)  # a busy machine reaches every kernel too
        tuner = Tuner(patient, own_database())
        return byoc.compile(network(), targets=["opencl"], tune=tuner, backend_options=GPU), folder


@pytest.fixture
def cache(first, tmp_path, monkeypatch):
    """The caches as they were behind the first compilation."""
    folder = tmp_path / "cache"
    shutil.copytree(first[1], folder)
    monkeypatch.setenv("BYOC_CACHE_DIR", str(folder))
    return folder


def test_what_was_tried_is_reported_with_all_times(first):
    report = tuning_of(first[0])
    assert report["level"] == "fast" and report["trials"] > 0 and report["seconds"] > 0
    assert report["devices"] and report["not_kept"] is None
    tried = [row for row in report["tuned"] if row["trials"]]
    assert tried and all(row["device"] in report["devices"] for row in tried)
    for row in tried:
        assert row["trials"][0]["choice"] == row["expected"] and 1 <= len(row["trials"]) <= 3
        assert all(t["shortest"] is not None or t["state"].startswith("failed: ") for t in row["trials"])
        if row["choice"] != row["expected"]:
            winner = next(t for t in row["trials"] if t["choice"] == row["choice"])
            assert winner["state"] == "measured"
            assert row["trials"][0]["median"] is None or winner["median"] < WON * row["trials"][0]["median"]
    assert set(report["thresholds"]) == set(report["devices"])
    assert f"{report['trials']} candidates" in report["text"]


def test_a_tuned_library_gives_what_an_untuned_one_gives_also_saved_and_loaded_elsewhere(first, cache, tmp_path):
    library, _ = first
    plain = byoc.compile(network(), targets=["opencl"], backend_options=GPU)
    want = plain.run({"x": example()})[0]
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


@pytest.mark.parametrize("left", ["tune", "opencl"], ids=["in the database", "in the device's cache file"])
def test_a_second_compilation_tries_nothing_and_makes_the_same_kernels(first, cache, left):
    shutil.rmtree(cache / {"tune": "opencl", "opencl": "tune"}[left])
    again = byoc.compile(network(), targets=["opencl"], tune="fast", backend_options=GPU)
    report = tuning_of(again)
    assert report["trials"] == 0 and report["tuned"] == []
    assert len(report["known"]) == len(tuning_of(first[0])["tuned"])
    assert kernels_of(again) == kernels_of(first[0])


def test_a_second_process_tries_nothing_and_makes_the_same_kernels(first, cache):
    code = (
        "import json, sys, byoc; sys.path.insert(0, sys.argv[1]);"
        "from opencl_network import network; from test_opencl_tuned import GPU, kernels_of, tuning_of;"
        "l = byoc.compile(network(), targets=['opencl'], tune='fast', backend_options=GPU);"
        "print(json.dumps([tuning_of(l)['trials'], kernels_of(l)]))"
    )
    command = [sys.executable, "-c", code, os.path.dirname(__file__)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [0, kernels_of(first[0])]


def test_records_are_handed_on_by_export_and_import(first, cache, tmp_path, monkeypatch, capsys):
    assert main(["tune", "--export", str(tmp_path / "records")]) == 0
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "empty"))
    assert main(["tune", "--import", str(tmp_path / "records")]) == 0
    (tmp_path / "model.onnx").write_bytes(network())
    capsys.readouterr()
    model = ["tune", str(tmp_path / "model.onnx"), "-t", "opencl", "--set", "opencl.schedules=gpu", "--json"]
    assert main(model) == 0
    report = json.loads(capsys.readouterr().out)["tuning"]
    found = {row["kernel"] for row in report["known"]}
    assert report["devices"] and found >= {row["kernel"] for row in tuning_of(first[0])["tuned"]}
    assert not [row for row in report["tuned"] if "device" in row]


def test_the_mode_of_the_backend_tunes_its_kernels_and_not_the_hosts(first, cache):
    options = {"opencl": {"schedules": "gpu", "mode": "tuning=fast"}}
    library = byoc.compile(network(), targets=["opencl"], backend_options=options)
    assert tuning_of(library)["trials"] == 0 and tuning_of(library)["threads"] == []
    assert kernels_of(library) == kernels_of(first[0])
    both = byoc.compile(network(), targets=["opencl"], tune="fast", backend_options=options)
    assert tuning_of(both)["trials"] == 0


def test_two_levels_contradict_each_other():
    for mode in ("tuning=normal", "tuning=none"):
        with pytest.raises(
            UserError, match=r"^tune is fast, and the options of backend opencl ask for tuning=\w+: give"
        ):
            byoc.compile(network(), targets=["opencl"], tune="fast", backend_options={"opencl": {"mode": mode}})
    with pytest.raises(UserError, match=r"opencl\.tune: a level is given as byoc\.compile's tune"):
        byoc.compile(network(), targets=["opencl"], backend_options={"opencl": {"tune": "fast"}})


def test_level_none_tries_and_reads_nothing(cache):
    for options in ({}, {"mode": "tuning=none"}):
        library = byoc.compile(network(), targets=["opencl"], backend_options={"opencl": {**GPU["opencl"], **options}})
        assert "tuning" not in library.report


@pytest.mark.slow
@pytest.mark.needs_cc
def test_placement_by_measured_costs_and_tuning_work_in_one_run(cache):
    """Some of the model on the device, some on the host, both tuned; the cut is held against the simple ones."""
    library = byoc.compile(
        network(),
        targets=["opencl"],
        tune="fast",
        policy="cost",
        costs="measured",
        exclude=["nn.softmax"],
        backend_options=GPU,
    )
    assert any("measured" in note or "host alone" in note for note in library.report["plan"]["notes"])
    assert tuning_of(library)["level"] == "fast"
    want = byoc.compile(network()).run({"x": example()})[0]
    np.testing.assert_allclose(library.run({"x": example()})[0], want, rtol=1e-4, atol=1e-6)
