"""The command line under ``BYOC_SANITIZE``: it starts itself again with the sanitizers' libraries before all others."""

from __future__ import annotations

import os
import sys

from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.sanitizers import check_process, preloading, requested
from byoc.runtime.dso.library_file import PRELOADED, absent


def start_again_where_needed() -> None:
    """Replace this process by one that can load sanitized code, unless it can already.

    Raises UserError for names that are no sanitizers and for a compiler without them, CompilerNotFoundError.
    """
    names = requested()
    if not names:
        return
    compiler = find_compiler()
    missing = absent(names)
    preloaded = os.environ.get("LD_PRELOAD", "")
    if not compiler.is_gcc or any(PRELOADED[name][0] in preloaded for name in missing):
        check_process(names, compiler.command, compiler.is_gcc)
    elif missing:
        environment = {**os.environ, **preloading(names, compiler.command)}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
