"""Arrays from and for files: the inputs and outputs of ``byoc run``. Nothing is unpickled."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from byoc.cli.array_files import read_array
from byoc.errors import InputError, UserError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.library import Library

MAX_BYTES = 1 << 36
_EPOCH = (1980, 1, 1, 0, 0, 0)


def read_inputs(library: Library, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """``NAME=FILE.npy`` texts as arrays; without a name where the model has one input. Raises InputError."""
    arrays: dict[str, np.ndarray] = {}
    for text in texts:
        name, equals, file = text.rpartition("=")
        if not equals:
            if len(library.inputs) != 1:
                names = ", ".join(s.name for s in library.inputs)
                raise InputError(f"--input {text!r}: the model has the inputs {names}; write NAME={text}")
            name = library.inputs[0].name
        if name not in {s.name for s in library.inputs}:
            names = ", ".join(s.name for s in library.inputs)
            raise InputError(f"--input {text!r}: the model has no input {name!r}; its inputs are {names}")
        if name in arrays:
            raise InputError(f"--input {text!r}: the input {name!r} is given twice")
        arrays[name] = read_array(name, Path(file))
    return arrays


def parse_sizes(library: Library, texts: Sequence[str]) -> dict[str, int]:
    """``NAME=N`` texts as sizes of free dimensions. Raises UserError for a name that the inputs do not have."""
    known = list(dict.fromkeys(d for s in library.inputs for d in s.shape if isinstance(d, str)))
    sizes = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.isdecimal():
            raise UserError(f"--size {text!r}: expected NAME=NUMBER")
        if name not in known:
            raise UserError(f"--size {text!r}: the free dimensions of the inputs are {', '.join(known) or 'none'}")
        sizes[name] = int(number)
    return sizes


def random_inputs(library: Library, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Seeded inputs; a free dimension is 1 unless *sizes* names it."""
    rng = np.random.default_rng(0)
    return {spec.name: _random(spec, sizes, rng) for spec in library.inputs}


def _random(spec: TensorSpec, sizes: Mapping[str, int], rng: np.random.Generator) -> np.ndarray:
    shape = tuple(d if isinstance(d, int) else sizes.get(d or "", 1) for d in spec.shape)
    dtype = numpy_dtype(spec.dtype)
    if math.prod(shape) * dtype.itemsize > MAX_BYTES:
        raise UserError(f"input {spec.name!r}: {spec.dtype}{list(shape)} is more than {MAX_BYTES:,} bytes; give less")
    if dtype.kind in "iubO":
        values = np.asarray(rng.integers(0, 2, shape))
        return (values.astype(str) if dtype.kind == "O" else values).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The arrays by name as ``numpy.savez`` writes them, but the same bytes every time, and strings without pickle."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            plain = array.astype(str) if array.dtype.kind == "O" else array
            np.lib.format.write_array(member, np.asanyarray(plain), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), member.getvalue())
    return buffer.getvalue()
