"""Progress: a bar after a second on a terminal, and elsewhere a line from time to time."""

import contextlib
import io
import os
import pathlib
import pty
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

from byoc.cli.report import progress
from byoc.cli.report.progress import StageProgress

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def shown(stage, seconds, monkeypatch, terminal=True, quiet=False):
    """What is written while *stage* takes *seconds*, when the bar waits for 0.05 seconds."""
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.05)
    file = io.StringIO()
    with StageProgress(quiet, Console(file=file, force_terminal=terminal)) as tell:
        tell(stage)
        time.sleep(seconds)
    return file.getvalue()


def test_what_takes_long_shows_its_stage(monkeypatch):
    text = shown("compiling [region] 7", 0.4, monkeypatch)
    assert "compiling [region] 7" in text and "0:00:00" in text


def test_what_is_quick_shows_nothing(monkeypatch):
    assert shown("compiling", 0.0, monkeypatch) == ""


def test_without_a_terminal_a_long_stage_is_a_line_from_time_to_time(monkeypatch):
    assert shown("compiling", 0.2, monkeypatch, terminal=False) == ""  # not yet
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.05)
    lines = shown("compiling [region] 7", 0.5, monkeypatch, terminal=False).splitlines()
    assert len(lines) >= 2 and set(lines) <= {"compiling [region] 7 (0 s)", "compiling [region] 7 (1 s)"}


def test_nothing_is_shown_when_asked_to_be_quiet(monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.05)
    for terminal in (True, False):
        assert shown("compiling", 0.2, monkeypatch, terminal, quiet=True) == ""


def test_lines_that_nobody_reads_do_not_stop_the_work(monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.02)
    file = io.StringIO()
    file.close()
    with StageProgress(False, Console(file=file, force_terminal=False)) as tell:
        tell("compiling")
        time.sleep(0.1)


def test_the_bar_waits_for_a_second():
    assert progress.PATIENCE_SECONDS == 1.0


def test_an_error_ends_the_bar(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.01)
    threads = threading.active_count()
    with pytest.raises(KeyError), StageProgress(False, Console(file=io.StringIO(), force_terminal=True)) as tell:
        tell("compiling")
        time.sleep(0.1)
        raise KeyError
    time.sleep(0.1)
    assert threading.active_count() <= threads


def read_all(descriptor, chunks):
    """All that is written to a terminal until it is closed, which a read says by an error."""
    with contextlib.suppress(OSError):
        while chunk := os.read(descriptor, 1 << 16):
            chunks.append(chunk)


@pytest.mark.needs_cc
def test_on_a_real_terminal_the_bar_goes_to_standard_error_and_is_wiped(tmp_path):
    code = (
        "import sys, time\n"
        "from byoc.cli import compile_command, main\n"
        "from byoc.cli.report import progress\n"
        "progress.PATIENCE_SECONDS = 0.05\n"
        "real = compile_command.compile_model\n"
        "def slow(*a, progress, **k):\n"
        "    progress('reading slowly')\n"
        "    time.sleep(0.4)\n"
        "    return real(*a, progress=progress, **k)\n"
        "compile_command.compile_model = slow\n"
        f"sys.exit(main.main(['compile', {str(DIGITS)!r}, '-t', 'json,c', '-o', {str(tmp_path / 'm.byoc')!r}]))\n"
    )
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-c", code]
    chunks = []
    reader = threading.Thread(target=read_all, args=(master, chunks))  # a terminal holds little that nobody reads
    reader.start()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=slave, env=environment, text=True)
    os.close(slave)
    reader.join()
    os.close(master)
    written = b"".join(chunks).decode()
    assert done.returncode == 0
    assert "reading slowly" in written and written.rstrip().endswith("\x1b[2K")
    assert "reading slowly" not in done.stdout and f"wrote {tmp_path / 'm.byoc'}" in done.stdout
