"""A device that is prepared in the background: first answers are the host's, later ones the device's, all are right."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from inverted_residuals import inverted_residuals

import byoc
from byoc.errors import UserError
from byoc.runtime.core.errors import DeviceError, InputError
from byoc.runtime.opencl import module as opencl_module

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_opencl]
X = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype("float32")


@pytest.fixture(scope="module")
def expected():
    return byoc.compile(inverted_residuals(32), ["c"])(X)


@pytest.fixture
def held(monkeypatch):
    """Builds wait for this."""
    event, real = threading.Event(), opencl_module.build_program

    def build(source, opened):
        assert event.wait(60)
        return real(source, opened)

    monkeypatch.setattr(opencl_module, "build_program", build)
    yield event
    event.set()


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_first_answers_are_the_hosts_and_later_ones_the_devices(held, expected):
    library = byoc.compile(inverted_residuals(32), ["opencl", "c"], fallback=True)
    preparation = library.prepare_in_background()
    for _ in range(3):
        close(library(X), expected)
    assert not preparation.wait(0) and not preparation.is_done
    assert library.device_counts["launches"] == 0
    records = library.fallbacks
    assert [r.stage for r in records] == ["warming"] * len(records) and records
    assert "is being prepared on opencl; the host computes until it is ready" in str(records[0])
    held.set()
    assert preparation.wait(120) and preparation.is_done
    before = library.device_counts
    close(library(X), expected)
    after = library.device_counts
    assert after["launches"] > before["launches"]
    made = ("programs", "kernels", "allocations", "trials")
    assert [after[name] - before[name] for name in made] == [0, 0, 0, 0]
    assert library.fallbacks == records  # no failure, and none since


def test_threads_that_run_meanwhile_all_get_right_answers(held, expected):
    library = byoc.compile(inverted_residuals(32), ["opencl", "c"], fallback=True)
    preparation, wrong, stop = library.prepare_in_background({"x": X.shape}), [], threading.Event()

    def work():
        while not stop.is_set():
            if not np.allclose(library(X), expected, rtol=1e-4, atol=1e-5):
                wrong.append(True)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    held.set()
    preparation.wait(120)
    close(library(X), expected)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_device_that_fails_while_it_is_prepared_leaves_the_host_with_the_record(monkeypatch, expected):
    def refuse(*words):
        raise DeviceError("injected")

    library = byoc.compile(inverted_residuals(32), ["opencl", "c"], fallback=True)
    monkeypatch.setattr(opencl_module, "build_program", refuse)
    assert library.prepare_in_background().wait(120)
    close(library(X), expected)
    assert "injected" in str(library.fallbacks[-1]) and library.fallbacks[-1].stage != "warming"


def test_what_cannot_be_prepared_in_the_background_is_one_sentence():
    library = byoc.compile(inverted_residuals(32), ["opencl", "c"])
    with pytest.raises(UserError, match=r"cannot be prepared in the background, .*: compile with fallback=True"):
        library.prepare_in_background()
    with pytest.raises(InputError, match="the model has no input 'y'; its inputs are "):
        library.prepare_in_background({"y": (1,)})
    with pytest.raises(UserError, match="no region of this model runs on a device"):
        byoc.compile(inverted_residuals(32), ["c"]).prepare_in_background()


CHILD = """
import sys
import numpy as np
import byoc.runtime
library = byoc.runtime.load(sys.argv[1])
preparation = library.prepare_in_background()
first = library(np.load(sys.argv[2]))
assert preparation.wait(120)
launches = library.device_counts["launches"]
second = library(np.load(sys.argv[2]))
assert library.device_counts["launches"] > launches
assert all(f.stage == "warming" for f in library.fallbacks)
np.savez(sys.argv[3], first=first, second=second)
"""


def test_an_artefact_in_a_new_process_is_prepared_in_the_background(tmp_path, expected):
    path = byoc.compile(inverted_residuals(32), ["opencl", "c"], fallback=True).save(tmp_path / "m.byoc")
    np.save(tmp_path / "x.npy", X)
    words = [str(path), str(tmp_path / "x.npy"), str(tmp_path / "y.npz")]
    done = subprocess.run([sys.executable, "-c", CHILD, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "y.npz") as found:
        close(found["first"], expected)
        close(found["second"], expected)
