"""Samples of a model's inputs in files: for ranges of int8, and for finding wrong numbers. Nothing is unpickled.

A folder has a sample a file, in the order of their names: a .npz with the inputs by name, or a .npy where the model has
one input. A .npz file alone is one sample, or several where its arrays have one more axis, in front, than the inputs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from byoc.cli.tensors.array_files import read_arrays
from byoc.errors import InputError, UserError
from byoc.runtime.files.whole_file import read_file

Sample = dict[str, np.ndarray]


@dataclass(frozen=True)
class SampleFiles:
    """The samples in *files*, read one after the other; *ranks* are those of the model's inputs by name."""

    files: tuple[Path, ...]
    ranks: Mapping[str, int]
    is_folder: bool

    @staticmethod
    def of(place: Path, model: Path, flag: str) -> SampleFiles:
        """Those of a folder or of one .npz, as *flag* names it.

        Raises UserError where there are none, or the model cannot be read.
        """
        if place.is_dir():
            files = tuple(sorted(p for p in place.iterdir() if p.suffix in (".npz", ".npy")))
            if not files:
                raise UserError(f"{flag} {place}: the folder holds no .npz or .npy file")
        elif place.is_file() and place.suffix == ".npz":
            files = (place,)
        else:
            raise UserError(f"{flag} {place}: expected a folder or a .npz file")
        return SampleFiles(files, _input_ranks(model), place.is_dir())

    def __iter__(self) -> Iterator[Sample]:
        for file in self.files:
            arrays = self._arrays(file)
            yield from [arrays] if self.is_folder else self._rows(file, arrays)

    def _arrays(self, file: Path) -> Sample:
        found = read_arrays(file)
        if isinstance(found, np.ndarray):
            if len(self.ranks) != 1:
                raise InputError(f"{file}: the model has the inputs {', '.join(self.ranks)}; give a .npz with them")
            return {next(iter(self.ranks)): found}
        return dict(found)

    def _rows(self, file: Path, arrays: Sample) -> list[Sample]:
        """The samples in *arrays*: themselves, or their rows where all have one more axis than the inputs."""
        known = {name: array for name, array in arrays.items() if name in self.ranks}
        extra = {array.ndim - self.ranks[name] for name, array in known.items()}
        if extra != {1}:  # whatever is wrong with one sample is said when it runs
            return [arrays]
        counts = {len(array) for array in known.values()}
        if len(counts) != 1 or len(known) != len(arrays):
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
            raise InputError(f"{file}: the first axis counts the samples and must be the same for all inputs: {shapes}")
        return [{name: array[k] for name, array in arrays.items()} for k in range(counts.pop())]


def _input_ranks(model: Path) -> dict[str, int]:
    onnx = importlib.import_module("onnx")
    try:
        graph = onnx.load_model_from_string(read_file(model)).graph
    except Exception as error:  # protobuf's own errors have no common class
        raise UserError(f"{model}: cannot be read as an ONNX model ({type(error).__name__}: {error})") from error
    weights = {w.name for w in graph.initializer}
    return {v.name: len(v.type.tensor_type.shape.dim) for v in graph.input if v.name not in weights}
