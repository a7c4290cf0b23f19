"""What reads an edited file, and what must come of it: an error of ours, or for an artefact the same bits as before."""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from byoc.runtime.core.container import ADT
from byoc.runtime.core.device import cpu
from byoc.runtime.core.errors import ByocError, InternalError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.loading import load, read_library
from byoc.runtime.module_tree import load_module_tree
from byoc.runtime.vm import VirtualMachine
from fuzz.files.edit import ArtifactEdits, edited_bytes, edited_json

REFUSED, SAME, OTHER, WRONG = "refused", "same", "another program", "WRONG"


class Subject(Protocol):
    """A file that is edited."""

    name: str
    data: bytes

    def edit(self, rng: random.Random, other: bytes) -> tuple[str, str, bytes]:
        """How it is edited, what in it, and the content."""

    def read(self, path: Path, how: str) -> str:
        """Have byoc read the file at *path*: what came of it."""


class ArtifactSubject:
    """An artefact, which is loaded and run."""

    def __init__(self, folder: Path, name: str):
        self.name = name
        self.data = (folder / f"{name}.byoc").read_bytes()
        with np.load(folder / f"{name}.npz") as arrays:
            self._inputs, self._outputs = (
                [arrays[f"{k}_{i}"] for i in range(len(arrays.files)) if f"{k}_{i}" in arrays] for k in ("in", "out")
            )
        self._edits = ArtifactEdits(self.data)

    def edit(self, rng: random.Random, other: bytes) -> tuple[str, str, bytes]:
        return self._edits.edit(rng, other)

    def read(self, path: Path, how: str) -> str:
        """Load and run. With a seal made anew the program may be another one, whose outputs say nothing."""
        try:
            if self.name != "vm":
                read_library(path)
            outputs = self._run(path)
        except InternalError:
            raise
        except ByocError:
            return REFUSED
        same = len(outputs) == len(self._outputs) and all(
            a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
            for a, b in zip(outputs, self._outputs, strict=True)
        )
        return SAME if same else OTHER if how == "resealed" else WRONG

    def _run(self, path: Path) -> list[np.ndarray]:
        if self.name == "vm":
            result = VirtualMachine(load_module_tree(path).executable, cpu()).run(*self._inputs)
            parts = list(result) if isinstance(result, ADT) else [result]
            return [part.numpy() for part in parts if isinstance(part, NDArray)]
        library = load(path, threads=1)
        return library.run({spec.name: a for spec, a in zip(library.inputs, self._inputs, strict=False)})


class FileSubject:
    """Any other file, which *reader* reads; edited as JSON where *is_json*, by bytes as well."""

    def __init__(self, path: Path, reader: Callable[[Path], object], is_json: bool = False):
        self.name, self._reader, self.data = path.name, reader, path.read_bytes()
        self._json = json.loads(self.data) if is_json else None

    def edit(self, rng: random.Random, other: bytes) -> tuple[str, str, bytes]:
        if self._json is not None and rng.random() < 0.7:
            return "json", "", edited_json(self._json, rng)
        return "bytes", "", edited_bytes(self.data, rng, other if rng.random() < 0.1 else b"")

    def read(self, path: Path, how: str) -> str:
        try:
            self._reader(path)
        except InternalError:
            raise
        except ByocError:
            return REFUSED
        return SAME


def subjects(folder: Path) -> list[Subject]:
    """The files of *folder*, as ``seeds`` makes them."""
    found: list[Subject] = [ArtifactSubject(folder, p.stem) for p in sorted(folder.glob("*.byoc"))]
    found += [FileSubject(folder / "others" / name, reader, name in _JSON) for name, reader in READERS.items()]
    return found


def _plan(path: Path) -> None:
    from byoc.partition.plan.plan import Plan

    plan = Plan.from_json(path.read_bytes().decode("utf-8", "replace"))
    str(plan), plan.to_json()


def _boundaries(path: Path) -> None:
    from byoc.partition.boundary_file import read_boundaries

    read_boundaries(path)


def _samples(path: Path) -> None:
    from byoc.cli.flags.calibration_options import SampleFiles

    for sample in SampleFiles((path,), {"x": 4}, path.suffix == ".npy"):
        {name: array.shape for name, array in sample.items()}


def _input(path: Path) -> None:
    from byoc.cli.tensors.array_files import read_array

    read_array("x", path)


def _params(path: Path) -> None:
    from byoc.runtime.params import load_param_dict_from_file

    load_param_dict_from_file(path)


def _bytecode(path: Path) -> None:
    from byoc.runtime.vm import Executable

    Executable.load_exec(path.read_bytes(), None)


def _relay(path: Path) -> None:
    from byoc.annex.node_json import load_json

    load_json(path.read_bytes().decode("utf-8", "replace"))


def _table(path: Path) -> None:
    from byoc.partition.costs.table import Table

    Table.load(path)


READERS: Mapping[str, Callable[[Path], None]] = {
    "plan.json": _plan,
    "rules.boundaries": _boundaries,
    "rules_json.boundaries": _boundaries,
    "samples.npz": _samples,
    "sample.npy": _input,
    "weights.params": _params,
    "code.vm": _bytecode,
    "graph.relay": _relay,
    "table.json": _table,
}
_JSON = ("plan.json", "rules_json.boundaries", "graph.relay", "table.json")
NEEDED = (
    "byoc.partition.plan.plan",
    "byoc.partition.boundary_file",
    "byoc.cli.flags.calibration_options",
    "byoc.annex.node_json",
    "byoc.cli.tensors.array_files",
    "byoc.partition.costs.table",
    "byoc.runtime.vm.executable",
    "byoc.runtime.dso.aot",
    "byoc.runtime.dso.module",
    "byoc.runtime.json.module",
    "byoc.runtime.origin",
    "byoc.runtime.opencl.module",
    "byoc.contrib.blas",
    "ml_dtypes",
)


def import_all() -> None:
    """Import what reading will need, so that a forked child need not."""
    for name in NEEDED:
        importlib.import_module(name)
