"""A linker for PoCL, which ends the whole process where it finds none.

PoCL on a processor links every program with ``ld`` from the search path. A machine that has Python and no compiler has
no ``ld`` either: the linker of the ``ziglang`` package then takes its place, by a script of that name in a folder of
this process at the end of ``PATH``. The script leaves libraries out (``-lc``, ``-lgcc``), whose files such a machine
does not have; what a kernel needs of them is in the process already.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from byoc.runtime.core.entry_points import install_command
from byoc.runtime.core.errors import DeviceError
from byoc.runtime.files.work_folder import work_folder

_FOLDERS = contextlib.ExitStack()
atexit.register(_FOLDERS.close)
_SCRIPT = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    -l*) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {python} -m ziglang ld.lld "$@"
"""


def provide_linker() -> None:
    """Make sure that there is an ``ld`` on ``PATH``. Raises DeviceError when there is none, nor the ziglang package."""
    if shutil.which("ld"):
        return
    if importlib.util.find_spec("ziglang") is None:
        raise DeviceError(
            "PoCL needs a linker, and there is no ld on the search path: "
            f"install binutils, or run {install_command('zig')}"
        )
    folder = _linker_folder()
    path = os.environ.get("PATH", "")
    if folder not in path.split(os.pathsep):
        os.environ["PATH"] = f"{path}{os.pathsep}{folder}" if path else folder


@functools.cache
def _linker_folder() -> str:
    """A folder of this process with the script, removed when the process ends, or by the next where it was killed."""
    try:
        folder = _FOLDERS.enter_context(work_folder(Path(tempfile.gettempdir())))
        script = folder / "ld"
        script.write_text(_SCRIPT.format(python=shlex.quote(sys.executable)), encoding="utf-8")
        script.chmod(0o755)
    except OSError as error:
        raise DeviceError(
            f"PoCL needs a linker, and the folder for temporary files cannot be written ({error.strerror}): install "
            "binutils, or name another folder with TMPDIR"
        ) from error
    return str(folder)
