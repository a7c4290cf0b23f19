"""Pipes, sockets, devices, folders and damaged bytes where a file should be; files that change while in use."""

import contextlib
import errno
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys

import numpy as np
import pytest
from injection import DIGITS, SECONDS, one_sentence

import byoc
import byoc.runtime
from byoc.cli.main import main
from byoc.cli.tensors.sample_files import SampleFiles
from byoc.driver.compiler.module_plan import read_plan
from byoc.driver.costs.store import CostStore
from byoc.driver.onnx_placement import proto_of
from byoc.errors import ArtifactError, UserError
from byoc.partition.boundary_file import read_boundaries
from byoc.partition.costs.table import Table
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.std import import_file
from byoc.runtime.artefact.artifact import write_artifact
from byoc.runtime.files import file_memory, whole_file
from byoc.runtime.files.whole_file import read_file
from byoc.runtime.params import load_param_dict_from_file, save_param_dict_to_file

X = np.linspace(-1, 1, 128, dtype="float32").reshape(2, 1, 8, 8)


@pytest.fixture(scope="module")
def library():
    if byoc.contract.get_backend("c").unavailable():
        pytest.skip("needs_cc: no C compiler")
    return byoc.compile(DIGITS, ["c"])


@contextlib.contextmanager
def something_else(kind, path):
    """What is no file, at *path*."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(path.parent)  # a socket's name is short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
        os.chdir(here)
    yield path


KINDS = {
    "pipe": "it is a pipe, whose end may never come",
    "folder": "[Ii]s a (directory|folder)",
    "device": "it is a device",
    "socket": "it is a socket",
}
READERS = {
    "model": lambda path: import_onnx(path),
    "compile": lambda path: byoc.compile(path, ["c"]),
    "artefact": byoc.runtime.load,
    "mapped artefact": lambda path: byoc.runtime.load(path, mapped=True),
    "plan": read_plan,
    "boundaries": read_boundaries,
    "cost table": Table.load,
    "model to place": proto_of,
    "parameters": load_param_dict_from_file,
    "Relay's text": lambda path: import_file(byoc.ir.IRModule(), str(path)),
    "a sample": lambda path: list(SampleFiles((path,), {"x": 4}, True)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file_is_refused_in_one_sentence_without_being_opened(tmp_path, monkeypatch, kind, reader):
    real = os.open
    with something_else(kind, tmp_path / "model.npz") as path:

        def watched(name, *words, **named):
            assert os.fspath(name) != str(path), "it was opened"
            return real(name, *words, **named)

        monkeypatch.setattr(os, "open", watched)
        with pytest.raises(UserError, match=KINDS[kind]) as caught:
            READERS[reader](path)
    assert str(path) in str(caught.value) or reader in ("model to place",)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["compile"],
        ["inspect"],
        ["explain"],
        ["plan"],
        ["export-c", "c"],
        ["partition", "-o", "p.onnx"],
    ],
)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_command_given_what_is_no_file_prints_one_sentence(tmp_path, monkeypatch, capsys, command, kind):
    monkeypatch.chdir(tmp_path)
    with something_else(kind, tmp_path / "model.onnx") as path:
        assert main([command[0], str(path), *command[1:]]) == 2
    assert one_sentence(capsys.readouterr().err)


@pytest.mark.parametrize("option", ["--plan", "--boundaries", "--calibrate", "--input"])
def test_a_pipe_given_to_an_option_is_one_sentence(tmp_path, capsys, option):
    with something_else("pipe", tmp_path / "x.npz") as path:
        words = (
            ["run", str(DIGITS), "--input", str(path)]
            if option == "--input"
            else [
                "compile",
                str(DIGITS),
                "-o",
                str(tmp_path / "m.byoc"),
                option,
                str(path),
                *(["--precision", "int8"] if option == "--calibrate" else []),
            ]
        )
        assert main(words) == 2
    assert one_sentence(capsys.readouterr().err)


def test_a_model_from_a_pipe_of_the_shell_is_refused_and_from_a_redirected_file_is_read(place):
    script = "import sys, byoc.relay.frontend.onnx as front; front.import_onnx(sys.argv[1])"
    status, _, errors = place.run(script, "/dev/stdin")
    assert status == 1 and "ImportModelError: /dev/stdin: cannot be read: it is a pipe" in errors
    with DIGITS.open("rb") as file:
        command = [sys.executable, "-c", script, "/dev/stdin"]
        done = subprocess.run(command, stdin=file, capture_output=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_put_in_the_place_of_what_is_no_file(tmp_path, library, kind):
    with something_else(kind, tmp_path / "m.byoc") as path:
        before = os.lstat(path).st_mode
        with pytest.raises(UserError, match="m.byoc: (the file cannot be written|this is a folder)"):
            library.save(path)
        assert os.lstat(path).st_mode == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.byoc"]


def test_what_takes_the_place_of_a_file_after_it_was_looked_at_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"x")
    real = os.open

    def swapped(name, flags, *words, **named):
        path.unlink()
        os.mkfifo(path)
        return real(name, flags, *words, **named)

    monkeypatch.setattr(whole_file.os, "open", swapped)
    with pytest.raises(whole_file.NotAFileError, match="it is a pipe"):
        read_file(path)


@pytest.mark.parametrize("mapped", [False, True])
def test_an_error_of_the_disk_while_an_artefact_is_read_is_one_sentence(tmp_path, library, monkeypatch, mapped):
    path = library.save(tmp_path / "m.byoc")

    def fail(*words, **named):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(file_memory.mmap if mapped else file_memory, "mmap" if mapped else "_read_into", fail)
    with pytest.raises(ArtifactError, match=r"m\.byoc: the artefact cannot be read \(Input/output error\)"):
        byoc.runtime.load(path, mapped=mapped)


def test_an_error_of_the_disk_while_a_model_is_read_is_one_sentence(tmp_path, monkeypatch):
    def fail(path, *words):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(whole_file.os, "open", fail)
    with pytest.raises(UserError, match=r"digits\.onnx: cannot be read: Input/output error"):
        import_onnx(DIGITS)


def test_a_file_that_is_cut_while_it_is_read_is_one_sentence(tmp_path, library, monkeypatch):
    path = library.save(tmp_path / "m.byoc")
    real = file_memory._read_into

    def cut(file, memory):
        os.truncate(path, 1000)
        return real(file, memory)

    monkeypatch.setattr(file_memory, "_read_into", cut)
    with pytest.raises(ArtifactError, match="was cut while it was read"):
        byoc.runtime.load(path)


CHANGES = {
    "overwritten by cp": lambda path, other: shutil.copyfile(other, path),
    "overwritten in the middle": lambda path, other: path.open("r+b").write(b"\xff" * 100_000),
    "truncated": lambda path, other: os.truncate(path, 0),
    "deleted": lambda path, other: path.unlink(),
    "replaced": lambda path, other: os.replace(other, path),
}


@pytest.fixture
def artefacts(tmp_path, library):
    """The artefact, and another of the same size with other bytes everywhere."""
    path, other = library.save(tmp_path / "m.byoc"), tmp_path / "other.byoc"
    other.write_bytes(bytes(b ^ 0x55 for b in path.read_bytes()))
    return path, other


@pytest.mark.parametrize("ran", ["before the first run", "between two runs"])
@pytest.mark.parametrize("change", CHANGES)
def test_an_artefact_that_changes_after_it_was_loaded_computes_as_before(artefacts, library, change, ran):
    loaded = byoc.runtime.load(artefacts[0])
    if ran == "between two runs":
        loaded(X)
    CHANGES[change](*artefacts)
    assert np.array_equal(loaded(X), library(X))
    assert np.array_equal(loaded.graph_executor()({loaded.inputs[0].name: X})[0], library(X))


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_mapped_artefact_that_is_written_into_is_an_error_and_one_that_is_replaced_is_none(
    artefacts, library, change, graph
):
    loaded = byoc.runtime.load(artefacts[0], mapped=True)
    executor = loaded.graph_executor() if graph else loaded.executor()
    CHANGES[change](*artefacts)
    if change in ("deleted", "replaced"):
        assert np.array_equal(executor({loaded.inputs[0].name: X})[0], library(X))
        return
    with pytest.raises(ArtifactError, match=r"m\.byoc: the file was overwritten while it was loaded with mapped=True"):
        executor({loaded.inputs[0].name: X})
    with pytest.raises(ArtifactError, match="was overwritten"):
        loaded(X)


def test_a_mapped_artefact_that_is_written_into_during_a_run_gives_no_numbers(artefacts):
    loaded = byoc.runtime.load(artefacts[0], mapped=True)
    executor = loaded.executor()
    inner = executor.inner.compute

    def overwritten(inputs):
        outputs = inner(inputs)
        CHANGES["overwritten in the middle"](*artefacts)
        return outputs

    executor.inner.compute = overwritten
    with pytest.raises(ArtifactError, match="was overwritten"):
        executor.compute([X])


def test_weights_of_a_loaded_artefact_cannot_be_written_to(artefacts):
    loaded = byoc.runtime.load(artefacts[0])
    weights = next(iter(loaded.module.constant_arrays.values())).numpy()
    assert not weights.flags.writeable
    child = os.fork()
    if child == 0:  # a store by native code, which asks nobody
        import ctypes

        ctypes.memset(weights.ctypes.data, 1, 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -11


def test_saving_over_a_loaded_artefact_keeps_what_is_loaded(artefacts, library):
    for mapped in (False, True):
        loaded = byoc.runtime.load(artefacts[0], mapped=mapped)
        loaded.save(artefacts[0])
        assert np.array_equal(loaded(X), library(X))


WRITERS = {
    "artefact": lambda path: write_artifact(path, {}, {"member": bytes(100_000)}),
    "parameters": lambda path: save_param_dict_to_file({"w": np.ones(30_000, "float32")}, path),
    "plan": lambda path: byoc.runtime.artefact.artifact.replace_file(path, lambda file: file.write(bytes(100_000))),
}
FULL = """
import resource, signal, sys
sys.path.append({folder!r})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from test_file_faults import WRITERS, pathlib
from byoc.errors import UserError
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
for named in (False, True):
    if named:
        import byoc.runtime.files.whole_file as whole
        whole._write_nameless = lambda *a: False
    for writer in WRITERS.values():
        try:
            writer(pathlib.Path("out"))
        except UserError as error:
            print(error)
"""


@pytest.mark.parametrize("was_there", [False, True])
def test_a_disk_that_takes_no_more_leaves_what_was_there_and_nothing_else(place, was_there):
    if was_there:
        (place.files / "out").write_bytes(b"as before")
    status, output, errors = place.run(FULL.format(folder=str(pathlib.Path(__file__).parent)))
    sentence = "out: the file cannot be written (File too large); nothing was left there"
    assert (status, output.splitlines()) == (0, [sentence] * 2 * len(WRITERS)), errors
    assert {p.name: p.read_bytes() for p in place.files.iterdir()} == ({"out": b"as before"} if was_there else {})


def test_a_failure_to_write_of_any_kind_leaves_nothing(tmp_path):
    def fail(file):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    for refuse in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if refuse:
                patch.setattr(whole_file, "_NAMELESS", 0)
            with pytest.raises(OSError, match="No space"):
                whole_file.write_whole(tmp_path / "out", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_file_gets_the_mode_that_the_user_wants(tmp_path):
    for mask, mode in ((0o077, 0o600), (0o022, 0o644)):
        before = os.umask(mask)
        try:
            for name in ("new", "new"):
                whole_file.write_whole(tmp_path / name, lambda file: file.write(b"x"))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(whole_file, "_NAMELESS", 0)
                whole_file.write_whole(tmp_path / "named", lambda file: file.write(b"x"))
        finally:
            os.umask(before)
        assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {mode}


def test_a_name_as_long_as_the_file_system_allows_can_be_written_and_replaced(tmp_path):
    path = tmp_path / ("n" * 250 + ".byoc")
    for content in (b"first", b"second"):
        whole_file.write_whole(path, lambda file, content=content: file.write(content))
        assert path.read_bytes() == content
    assert len(list(tmp_path.iterdir())) == 1


def test_a_store_of_costs_that_cannot_be_written_says_why(tmp_path):
    (tmp_path / "costs").write_bytes(b"")
    shown = CostStore(tmp_path / "costs").add({"backend": "c"}, [])
    assert shown is not None and "cannot be written" in shown
