"""Runs the examples of a page, in their order, in a new folder: ``python -m tools.site.page_examples docs/start.md``.

A ``python`` block is executed; where it begins with ``>>>``, what it prints is compared. In a ``console`` block each
``$ command`` is run, must exit with 0, and what it prints is compared with the lines below it, if there are any.
``...`` in what is expected stands for anything, and white space is compared as single spaces. ``examples`` is a link to
the repository's. Exit code 1, with the differences, where a page says what is not so.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*(?:\\\n.*)*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
PROGRESS = re.compile(r"^.* \(\d+ s\)\n", re.MULTILINE)  # what commands write that take long
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class PageBlock:
    """A block of a page: its language, its text, and the line where it begins."""

    language: str
    text: str
    line: int


def blocks_of(page: str) -> list[PageBlock]:
    """The blocks of a page that are run."""
    return [PageBlock(m[1], m[2], page.count("\n", 0, m.start()) + 1) for m in BLOCK.finditer(page)]


def run_python(block: PageBlock, names: dict[str, object], page: str) -> int:
    """How many examples of the block failed; *names* are the page's, as in one session."""
    if not block.text.startswith(">>>"):
        exec(compile("\n" * block.line + block.text, page, "exec"), names)
        return 0
    test = doctest.DocTestParser().get_doctest(block.text, names, page, page, block.line)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, clear_globs=False)
    names.update(test.globs)
    return runner.summarize(verbose=False).failed


def run_console(block: PageBlock, page: str) -> int:
    """How many commands of the block failed, or printed something else."""
    failed = 0
    checker = doctest.OutputChecker()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    commands = COMMAND.findall(block.text)
    assert commands, f"{page}:{block.line}: a console block without a command"
    for command, expected in commands:
        found = subprocess.run(
            ["bash", "-c", command], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
        )
        printed = found.stdout + PROGRESS.sub("", found.stderr)
        if found.returncode or (expected.strip() and not checker.check_output(expected, printed, FLAGS)):
            print(f"{page}:{block.line}: $ {command}\nexit code {found.returncode}; it printed:\n{printed}")
            print(f"expected:\n{expected}")
            failed += 1
    return failed


def run_page(path: Path) -> int:
    """How many examples of a page failed."""
    page, failed = str(path), 0
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(path.read_text(encoding="utf-8")):
        failed += run_python(block, names, page) if block.language == "python" else run_console(block, page)
    return failed


def main() -> int:
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    failed = 0
    for path in pages:
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(ROOT / "examples", Path(folder) / "examples")
            os.chdir(folder)
            failed += run_page(path)
            os.chdir(ROOT)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
