"""The C++ compiler of this machine: for what integrations that were written for TVM emit. byoc itself writes C."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys

from byoc.codegen.c.toolchain.compiler import CCompiler, find_works
from byoc.errors import CompilerNotFoundError

CXX_FLAGS = ("-x", "c++", "-std=gnu++17")  # of each unit: what is linked is no source, and macros are asked of as C
NOT_FOUND = (
    "code in C++ needs a C++ compiler, and none works here: install g++ or clang++, or set $CXX, or emit C (fmt c)"
)


def find_cxx_compiler() -> CCompiler:
    """The first C++ compiler that works: that of ``$CXX`` alone where it is set.

    Units are compiled with :data:`CXX_FLAGS`. Raises CompilerNotFoundError with one sentence where there is none.
    """
    own = os.environ.get("CXX", "").strip()
    try:
        commands = [tuple(shlex.split(own))] if own else _candidates()
    except ValueError as error:
        raise CompilerNotFoundError(f"$CXX is {own!r}, which is no command: {error}") from error
    found = find_works(tuple(commands), standard=())
    if isinstance(found, CCompiler):
        return found
    if own:
        raise CompilerNotFoundError(
            f"$CXX is {own!r}, which does not work as a C++ compiler here ({found}): mend it or unset it"
        )
    raise CompilerNotFoundError(NOT_FOUND)


def _candidates() -> list[tuple[str, ...]]:
    paths = (shutil.which(name) for name in ("c++", "g++", "clang++"))
    found: list[tuple[str, ...]] = [(path,) for path in paths if path]
    if importlib.util.find_spec("ziglang") is not None:
        found.append((sys.executable, "-m", "ziglang", "c++"))
    return found
