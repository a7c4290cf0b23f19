"""Arrays from and for files: inputs and outputs of ``byoc run``, inputs of ``bisect`` and ``compare``.

Nothing is unpickled.
"""

from __future__ import annotations

import argparse
import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from byoc.cli.tensors.array_files import read_array
from byoc.errors import InputError, UserError
from byoc.runtime.core.derived_size import is_derived
from byoc.runtime.core.ndarray import dtype_name, numpy_dtype
from byoc.runtime.core.small_types import BITS
from byoc.runtime.graph.executor_base import check_known
from byoc.runtime.library import Library
from byoc.testing.core.inputs import seeded_inputs

_EPOCH = (1980, 1, 1, 0, 0, 0)


def read_inputs(library: Library, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """``NAME=FILE.npy`` texts as arrays; without a name where the model has one input. Raises InputError."""
    arrays: dict[str, np.ndarray] = {}
    for text in texts:
        name, equals, file = text.rpartition("=")
        if not equals:
            if len(library.inputs) - len(library.input_defaults) != 1:
                names = ", ".join(s.name for s in library.inputs)
                raise InputError(f"--input {text!r}: the model has the inputs {names}; write NAME={text}")
            name = library.inputs[0].name
        if name in library.fixed_inputs:
            check_known([], [name], library.fixed_inputs)
        if name not in {s.name for s in library.inputs}:
            names = ", ".join(s.name for s in library.inputs)
            raise InputError(f"--input {text!r}: the model has no input {name!r}; its inputs are {names}")
        if name in arrays:
            raise InputError(f"--input {text!r}: the input {name!r} is given twice")
        dtype = next(s.dtype for s in library.inputs if s.name == name)
        found = read_array(name, Path(file))
        arrays[name] = _as_said(found, dtype) if Path(file).suffix == ".json" else _named(found, dtype)
    return arrays


def _as_said(array: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers of a JSON text, which have no dtype, as *dtype* where it holds their kind."""
    if dtype_name(array.dtype) in ("string", "bool") or dtype == "string":
        return array
    wanted = numpy_dtype(dtype)
    return array.astype(wanted) if np.can_cast(array.dtype, wanted, "same_kind") else array


def _named(array: np.ndarray, dtype: str) -> np.ndarray:
    """*array* as *dtype* where numpy's file has kept the bytes without the name of their type, unknown to it."""
    if dtype not in BITS or array.dtype.kind != "V" or dtype_name(array.dtype) in BITS:
        return array
    wanted = numpy_dtype(dtype)
    return array.view(wanted) if array.dtype.itemsize == wanted.itemsize and array.dtype.names is None else array


def nameless(arrays: Mapping[str, np.ndarray]) -> str:
    """A sentence on those of *arrays* whose dtype numpy's files do not name; empty where there is none."""
    found = {name: dtype_name(a.dtype) for name, a in arrays.items() if dtype_name(a.dtype) in BITS}
    if not found:
        return ""
    name, dtype = next(iter(found.items()))
    listed = ", ".join(f"{n} ({d})" for n, d in found.items())
    return (
        f"numpy's files keep the bytes of {listed} without the name of their type: read them with "
        f"np.load(...)[{name!r}].view(ml_dtypes.{dtype})"
    )


def parse_sizes(library: Library, texts: Sequence[str]) -> dict[str, int]:
    """``NAME=N`` texts as sizes of free dimensions. Raises UserError for a name that the inputs do not have."""
    known = list(dict.fromkeys(d for s in library.inputs for d in s.shape if isinstance(d, str) and not is_derived(d)))
    sizes = {}
    for name, number in map(_size, texts):
        if name not in known:
            given = f"{name}={number}"
            raise UserError(f"--size {given!r}: the free dimensions of the inputs are {', '.join(known) or 'none'}")
        sizes[name] = number
    return sizes


def random_inputs(library: Library, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Seeded inputs; a free dimension is 1 unless *sizes* names it."""
    return seeded_inputs(library.inputs, sizes)


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The arrays by name as ``numpy.savez`` writes them, but the same bytes every time, and strings without pickle."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            plain = array.astype(str) if array.dtype.kind == "O" else array
            if dtype_name(array.dtype) in BITS:  # whose own name numpy would write, and not read again
                plain = np.asarray(array, order="C").view(np.dtype((np.void, array.dtype.itemsize)))
            np.lib.format.write_array(member, np.asanyarray(plain), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), member.getvalue())
    return buffer.getvalue()


def add_input_arguments(command: argparse.ArgumentParser) -> None:
    """The options about inputs."""
    command.add_argument(
        "-i",
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="an input, as numpy.save writes it, or as nested lists in FILE.json; those not given are seeded",
    )
    command.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="the size of a free dimension (default: 1)"
    )


def given_arrays(arguments: argparse.Namespace) -> dict[str, np.ndarray] | None:
    """What ``--input`` gives, by name; None without any. Raises InputError for a text of another form."""
    return named_arrays(arguments.input, "--input") or None


def named_arrays(texts: Sequence[str], flag: str) -> dict[str, np.ndarray]:
    """``NAME=FILE.npy`` texts of *flag* as arrays by name. Raises InputError for a text of another form."""
    arrays: dict[str, np.ndarray] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if not equals or not name:
            raise InputError(f"{flag} {text!r}: expected NAME=FILE.npy")
        if name in arrays:
            raise InputError(f"{flag} {text!r}: the input {name!r} is given twice")
        arrays[name] = read_array(name, Path(file))
    return arrays


def given_sizes(arguments: argparse.Namespace) -> dict[str, int]:
    """What ``--size`` gives, by name. Raises UserError for a text of another form."""
    return named_sizes(arguments.size)


def named_sizes(texts: Sequence[str]) -> dict[str, int]:
    """``NAME=N`` texts by name. Raises UserError for a text of another form."""
    return {name: number for name, number in map(_size, texts)}


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.rpartition("=")
    if not name or not number.isdecimal():
        raise UserError(f"--size {text!r}: expected NAME=NUMBER")
    return name, int(number)
