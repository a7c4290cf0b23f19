"""Processes in which faults are injected: with folders of their own, and bounded in time."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
SECONDS = 120  # a bound on hangs, not a measurement


class Place:
    """Folders for a process: temporary files, cache, and one for the test; environments and processes with them."""

    def __init__(self, folder):
        self.temporary, self.cache, self.files = (folder / name for name in ("tmp", "cache", "files"))
        for made in (self.temporary, self.files):
            made.mkdir()

    def environment(self, **variables):
        return {**os.environ, "TMPDIR": str(self.temporary), "BYOC_CACHE_DIR": str(self.cache), **variables}

    def start(self, code, *words, **variables):
        """A process that runs *code*; its standard input and outputs are pipes."""
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)],
            env=self.environment(**variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=self.files,
        )

    def run(self, code, *words, **variables):
        """The exit status, what was printed, and the errors of *code*; the test fails where it hangs."""
        with self.start(code, *words, **variables) as process:
            try:
                output, errors = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                pytest.fail("the process hangs")
            return process.returncode, output, errors

    def command(self, *words, before="", **variables):
        """As ``run``, of the command line ``byoc``; *before* is done first, in the same process."""
        code = f"{before}\nimport sys\nfrom byoc.cli.main import main\nsys.exit(main(sys.argv[1:]))"
        return self.run(code, *words, **variables)

    def left(self):
        """What lies in the folder for temporary files."""
        return sorted(str(p.relative_to(self.temporary)) for p in self.temporary.rglob("*"))


def one_sentence(text):
    """Whether an error output is one line, as a user shall see it: no traceback."""
    return len(text.strip().splitlines()) == 1 and "Traceback" not in text


def something_damaged(path, damage):
    """Put what no reader expects in the place of the file at *path*."""
    data = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage == "pipe":
        os.mkfifo(path)
    else:
        wrong = {"cut": data[: len(data) // 2], "empty": b"", "garbage": bytes(range(256)) * 20, "another's": b"PK\3\4"}
        path.write_bytes(wrong[damage])
