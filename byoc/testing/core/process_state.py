"""What a process has one of, and a backend's code leaves alone: how numpy treats errors, the current folder, the global
random numbers, and whether the processor keeps denormal numbers.

A library that changes one of these changes what the user's own code does afterwards, and no number of its own shows it.
"""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

SMALLEST = np.array([1e-45], "float32")  # a denormal number
ENVIRONMENT_BYTES = 256  # as many as C's fenv_t has anywhere, and more


@dataclass(frozen=True)
class ProcessState:
    """How the process was at one moment."""

    errors: dict[str, Any]
    folder: str
    numpy_random: tuple[Any, ...]
    python_random: tuple[Any, ...]
    keeps_denormals: bool
    float_environment: bytes  # C's fenv_t of this thread; empty where there is none

    @classmethod
    def now(cls) -> ProcessState:
        """How it is."""
        drawn = np.random.get_state(legacy=True)
        assert isinstance(drawn, tuple)
        kept = bool((SMALLEST * np.float32(1))[0] > 0)
        return cls({**np.geterr()}, os.getcwd(), drawn, random.getstate(), kept, _float_environment())

    def restore(self) -> str | None:
        """Make the process so again, as far as it can be. What was otherwise, in words; None where nothing was."""
        now = ProcessState.now()
        found = []
        if now.errors != self.errors:
            np.seterr(**self.errors)
            found.append("how numpy treats errors (np.seterr; np.errstate is for a block)")
        if now.folder != self.folder:
            os.chdir(self.folder)
            found.append("the current folder (os.chdir)")
        if not _same_numbers(now.numpy_random, self.numpy_random):
            np.random.set_state(self.numpy_random)
            found.append("numpy's global random numbers (np.random.default_rng gives others)")
        if now.python_random != self.python_random:
            random.setstate(self.python_random)
            found.append("Python's global random numbers (random.Random gives others)")
        if now.keeps_denormals != self.keeps_denormals:
            _set_float_environment(self.float_environment)
            found.append("whether the processor keeps denormal numbers (a library linked with -ffast-math?)")
        return ", ".join(found) or None


class ProcessWatch:
    """What a backend's code changed in its process, block by block; behind each the process is as it was before."""

    def __init__(self) -> None:
        self._found: dict[str, None] = {}

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """A block in which *what* is done, as ``a run``."""
        before = ProcessState.now()
        try:
            yield
        finally:
            changes = before.restore()
            if changes is not None:
                self._found[f"{what} changes {changes}"] = None

    @property
    def text(self) -> str:
        """All that was found, in words; empty where nothing was."""
        return "; ".join(self._found)


def _float_environment() -> bytes:
    """The processor's modes of floating-point numbers as C's ``fegetenv`` gives them."""
    kept = ctypes.create_string_buffer(ENVIRONMENT_BYTES)
    function = getattr(ctypes.CDLL(None), "fegetenv", None)
    return kept.raw if function is not None and function(kept) == 0 else b""


def _set_float_environment(kept: bytes) -> None:
    if kept:
        ctypes.CDLL(None).fesetenv(ctypes.create_string_buffer(kept, ENVIRONMENT_BYTES))


def _same_numbers(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
