"""A C compiler that hangs, crashes, lies, disappears, or speaks another encoding: one sentence, and nothing left."""

import os
import pathlib
import signal
import stat
import subprocess
import threading
import time

import filelock
import pytest

from byoc.codegen.c.toolchain import compiler as compilers
from byoc.codegen.c.toolchain import object_cache
from byoc.codegen.c.toolchain.compiler import TranslationUnit, find_compiler
from byoc.errors import CompileError, CompilerNotFoundError, UserError

pytestmark = pytest.mark.needs_cc
SOURCE = "int forty_two(void) { return 42; }\n"


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The folders for temporary files and for the cache, which are this test's own."""
    temporary, cache = tmp_path / "tmp", tmp_path / "cache"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setenv("BYOC_CACHE_DIR", str(cache))
    yield temporary, cache
    assert list(temporary.iterdir()) == []
    assert not (cache / "work").exists() or list((cache / "work").iterdir()) == []


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """``compiler(text)``: a C compiler that does *text* (a shell's) when it compiles or links, else what it should."""
    real = find_compiler().command[0]

    def install(text, when="-o"):
        path = tmp_path / "my-cc"
        path.write_text(
            f'#!/bin/sh\nfor a in "$@"; do if [ "$a" = "{when}" ]; then\n{text}\nfi; done\nexec {real} "$@"\n'
        )
        path.chmod(path.stat().st_mode | stat.S_IEXEC)
        monkeypatch.setenv("CC", str(path))
        return path

    return install


def test_a_compiler_that_hangs_is_killed_with_all_that_it_started(folders, compiler, tmp_path, monkeypatch):
    compiler(f"sleep 1000 & echo $! > {tmp_path}/child; sleep 1000")
    monkeypatch.setenv("BYOC_COMPILER_SECONDS", "0.5")
    with pytest.raises(CompileError, match=r"my-cc did not end within 0\.5 s; the source is .*\.c$"):
        find_compiler().build(SOURCE)
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if is_gone(child):
            break
        time.sleep(0.05)
    assert is_gone(child)


def is_gone(process):
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"  # ended, and its new parent has not looked yet


@pytest.mark.parametrize("text", ["0", "-1", "soon", "inf", "nan"])
def test_a_time_limit_that_is_none_is_refused(folders, monkeypatch, text):
    monkeypatch.setenv("BYOC_COMPILER_SECONDS", text)
    with pytest.raises(UserError, match=r"\$BYOC_COMPILER_SECONDS is a number of seconds above 0, got"):
        find_compiler().build(SOURCE)


def test_a_compiler_that_hangs_when_it_is_asked_its_version_does_not_work(folders, compiler, monkeypatch):
    compiler("sleep 1000", when="--version")
    monkeypatch.setenv("BYOC_COMPILER_SECONDS", "0.2")
    with pytest.raises(CompilerNotFoundError, match=r"\$CC .* does not work .* \(did not end within 0\.2 s\): mend it"):
        find_compiler()


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("kill -SEGV $$", r"my-cc refused generated code: it was ended by SIGSEGV"),
        ("exit 7", r"my-cc refused generated code: exit status 7"),
        (
            r"printf 'Fehler: \344\366\374 error \377\n' >&2; exit 1",
            r"refused generated code: Fehler: .* error .*; the source is",
        ),
        ("head -c 100000 /dev/urandom >&2; exit 1", r"refused generated code: .*; the source is"),
        ("exit 0", r"my-cc ended well and wrote nothing \(No such file or directory\)"),
        (': > "$output"; exit 0', r"my-cc ended well and wrote 0 bytes that are no native code"),
        ('echo text > "$output"; exit 0', r"my-cc ended well and wrote 5 bytes that are no native code"),
        ('mkdir "$output"; exit 0', r"my-cc ended well and wrote nothing \(Is a directory\)"),
        ('mkfifo "$output"; exit 0', r"my-cc ended well and wrote nothing \(it is a pipe"),
    ],
)
@pytest.mark.parametrize("step", ["compile", "link"])
def test_a_compiler_or_linker_that_fails_in_any_way_is_one_sentence(folders, compiler, does, says, step):
    find_output = 'output=; p=; for b in "$@"; do [ "$p" = "-o" ] && output="$b"; p="$b"; done'
    compiler(f"{find_output}; {does}", when="-c" if step == "compile" else "-shared")
    says = says if step == "compile" else says.replace("; the source is", "; it was linking")
    with pytest.raises(CompileError, match=says) as caught:
        find_compiler().build(SOURCE)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000


def test_nothing_of_a_failed_build_is_taken_from_the_cache_later(folders, compiler, monkeypatch):
    broken = compiler(': > "$output"; exit 0')
    with pytest.raises(CompileError):
        find_compiler().build(SOURCE)
    broken.unlink()
    monkeypatch.delenv("CC")
    assert find_compiler().build(SOURCE).startswith(b"\x7fELF")


def test_a_compiler_that_disappears_half_way_is_one_sentence(folders, compiler):
    path = compiler("exit 1")
    found = find_compiler()
    found.processor()  # as a compilation asks first
    path.unlink()
    with pytest.raises(CompileError, match=r"my-cc cannot be started: No such file or directory; the source is"):
        found.build(SOURCE)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.mkdir(), "cannot be started: Permission denied"),
        (lambda path: path.write_text("#!/bin/sh\n"), "cannot be started: Permission denied"),
        (lambda path: (path.write_bytes(b"\x00\x01"), path.chmod(0o755)), "cannot be started: Exec format error"),
        (lambda path: (path.write_text("#!/bin/sh\n"), path.chmod(0o755)), "it prints nothing"),
    ],
)
def test_what_is_no_compiler_is_named_with_its_reason(folders, tmp_path, monkeypatch, make, reason):
    make(tmp_path / "my-cc")
    monkeypatch.setenv("CC", str(tmp_path / "my-cc"))
    with pytest.raises(CompilerNotFoundError, match=rf"does not work as a C compiler here \({reason}\)"):
        find_compiler()


def test_a_command_with_an_open_quote_is_refused(monkeypatch):
    monkeypatch.setenv("CC", 'cc "-O2')
    with pytest.raises(CompilerNotFoundError, match="which is no command: No closing quotation"):
        find_compiler()


def test_a_unit_that_is_refused_ends_the_compilers_of_the_others(folders, compiler, monkeypatch):
    monkeypatch.setattr(compilers, "usable_processors", lambda: 2)
    compiler('case "$*" in *-DSLOW*) sleep 1000;; esac', when="-c")
    units = [TranslationUnit(SOURCE, ("-DSLOW",)), TranslationUnit("int broken( {\n")]
    with pytest.raises(CompileError, match="refused generated code: .*error"):
        find_compiler().build_units(units)  # would take 300 s


def test_a_thread_that_cannot_be_started_leaves_the_work_to_this_one(folders, monkeypatch):
    def refuse(self, *words):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(compilers.ThreadPoolExecutor, "submit", refuse)
    assert find_compiler().build(SOURCE).startswith(b"\x7fELF")


def test_a_system_without_a_free_process_says_so_and_the_compiler_is_found_later(folders, tmp_path, monkeypatch):
    def refuse(*words, **named):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    compilers._find.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", refuse)
        with pytest.raises(CompilerNotFoundError, match=r"cannot be started: Resource temporarily unavailable"):
            find_compiler()
    assert find_compiler().version


def test_a_process_that_holds_an_entry_for_ever_is_not_waited_for(folders, monkeypatch):
    monkeypatch.setenv("BYOC_COMPILER_SECONDS", "5")
    real, waits = filelock.FileLock, []

    class Held:
        def __init__(self, path, timeout):
            waits.append(timeout)
            self.lock = real(path, timeout=0.1)

        def __enter__(self):
            raise filelock.Timeout("held")

        def __exit__(self, *error):
            raise AssertionError

    monkeypatch.setattr(filelock, "FileLock", Held)
    assert find_compiler().build(SOURCE).startswith(b"\x7fELF")
    assert set(waits) == {10.0}


def test_an_interrupted_build_ends_its_compilers_and_leaves_nothing(folders, compiler, tmp_path):
    compiler(f"echo $$ > {tmp_path}/started; sleep 1000")

    def interrupt():
        while not (tmp_path / "started").exists() or not (tmp_path / "started").read_text():
            time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs in the background
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            find_compiler().build(SOURCE)
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert is_gone(int((tmp_path / "started").read_text()))


@pytest.mark.skipif(os.geteuid() != 0 or not pathlib.Path("/proc/mounts").exists(), reason="mounts need root")
@pytest.mark.parametrize("size", ["64k", "1m"])
def test_a_full_disk_under_the_cache_is_a_warning_and_the_build_goes_on(folders, tmp_path, size):
    _, cache = folders
    cache.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(cache)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with open(cache / "filler", "wb", buffering=0) as filler, pytest.raises(OSError, match="No space left"):
            while True:
                filler.write(bytes(4096))
        object_cache._warn.cache_clear()
        object_cache.object_cache.cache_clear()
        with pytest.warns(UserWarning, match=r"cannot be written \(No space left on device\).*BYOC_CACHE_DIR"):
            first = find_compiler().build(SOURCE)
        assert first.startswith(b"\x7fELF") and find_compiler().build(SOURCE) == first
        assert [p for p in cache.rglob("*.part")] == []
    finally:
        subprocess.run(["umount", "-l", str(cache)], check=True)


def test_without_room_in_either_folder_both_are_named(folders, monkeypatch):
    monkeypatch.setattr(object_cache, "FEWEST_FREE", 1 << 62)
    with pytest.raises(
        UserError, match=r"no folder for the C compiler to work in: .*work \(less than .* MB are free\), .*TMPDIR"
    ):
        find_compiler().build(SOURCE)
