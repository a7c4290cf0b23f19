"""Processes under a sanitizer: their variables, and what the sanitizer reported."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from dataclasses import dataclass

import pytest

from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.sanitizers import VARIABLE, preloading
from byoc.errors import UserError

OPTIONS = ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")


@dataclass(frozen=True)
class Done:
    """A process that ended, and the reports of its sanitizers."""

    returncode: int
    stdout: str
    stderr: str
    reports: str

    @property
    def everything(self) -> str:
        return f"{self.stdout[-3000:]}\n{self.stderr[-3000:]}\n{self.reports[:6000]}"


def environment(sanitizers: str, folder: pathlib.Path) -> dict[str, str]:
    """Variables under which a process has *sanitizers*, whose reports go to *folder*; skips where GCC has none."""
    compiler = find_compiler()
    if not compiler.is_gcc:
        pytest.skip("sanitizers need GCC")
    try:
        added = preloading(sanitizers.split(","), compiler.command)
    except UserError as error:
        pytest.skip(str(error))
    (folder / "reports").mkdir(parents=True, exist_ok=True)
    reports = f"log_path={folder / 'reports' / 'report'}"
    options = {name: ":".join(filter(None, (added.get(name), reports))) for name in OPTIONS}
    return {
        **os.environ,
        **added,
        **options,
        VARIABLE: sanitizers,
        "BYOC_CACHE_DIR": str(folder / "cache"),
        "BYOC_LIBRARY_CACHE_MB": "0",
    }


def run_under(
    sanitizers: str,
    folder: pathlib.Path,
    command: list[str],
    more: dict[str, str] | None = None,
    limit: float = 3600,
) -> Done:
    """Run ``python <command>`` under *sanitizers*, for *limit* seconds at most."""
    env = {**environment(sanitizers, folder), **(more or {})}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=env, check=False, timeout=limit
    )
    reports = "\n".join(p.read_text(errors="replace") for p in sorted((folder / "reports").iterdir()))
    return Done(done.returncode, done.stdout, done.stderr, reports)
