"""What every process needs is done once, before they are forked.

A first export imports 2,000 modules and a first compilation 400; a process that begins with them takes 20 s of the 30 s
that one architecture costs.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import tempfile
from pathlib import Path

from .build import NotMade
from .catalogue import architectures
from .export import export
from .judge import judge
from .results import FILES

FIRST = "bert"  # an encoder: it needs masks, attention, norms, and is small


def warm() -> None:
    """Export one architecture and judge it, then keep what that imported and made out of the collector's sight.

    The objects that are frozen are shared with the processes that are forked, which never walk over them again.
    """
    remember_translations()
    of = next(a for a in architectures() if a.name == FIRST)
    with tempfile.TemporaryDirectory() as name, contextlib.suppress(NotMade):
        folder = Path(name)
        export(of, folder)
        for file in FILES:
            if (folder / f"{file}.onnx").exists():
                judge(folder / f"{file}.onnx", sorted(folder.glob(f"{file}.*.npz")))
    gc.collect()
    gc.freeze()


def remember_translations() -> None:
    """Let PyTorch's exporter make its table of 500 translations once, not for each export (2 s of 9).

    The method is none of PyTorch's interface: another version may lack it, which costs time alone.
    """
    with contextlib.suppress(ImportError, AttributeError):
        table = importlib.import_module("torch.onnx._internal.exporter._registration").ONNXRegistry
        table.from_torchlib = staticmethod(functools.cache(table.from_torchlib))
