"""``tvm.contrib.mrvl``: where Marvell's tools leave their files. Source: ``tvm.contrib.mrvl``."""

from __future__ import annotations

import os

from byoc.compat.tvm.below import Missing


def get_working_dir() -> str:
    """The folder in which the process works, as a path. Source: ``mrvl.get_working_dir``."""
    return os.getcwd()


def __getattr__(name: str) -> Missing:
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(f"tvm.contrib.mrvl.{name}")
