"""What a compiled function takes and gives: tensors with static or named dimensions.

A dimension is an int, a name (a size that is found in the inputs when the function is called), or None for one that
is known only after the function ran. The same description stands in saved modules, in the artefact's manifest and
in the graph executor.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.errors import ArtifactError, InputError, UserError
from byoc.runtime.core.ndarray import dtype_name, numpy_dtype
from byoc.runtime.core.small_types import BITS
from byoc.runtime.core.strict_json import (
    MOST_NUMBER,
    at,
    list_of,
    number_of,
    numbered,
    object_of,
    text_of,
    texts_of,
)

Dim = int | str | None
T = TypeVar("T")
MOST_LETTERS = 4096  # of a symbol
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOST_DIMENSIONS = 64  # as numpy
MOST_SHOWN = 3  # tensors in a line


class Shaped(Protocol):
    """What can be held to a spec: an array, or a tensor that lies on a device."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""

    @property
    def dtype(self) -> np.dtype:
        """The type of its elements."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor's name, shape and dtype."""

    name: str
    shape: tuple[Dim, ...]
    dtype: str

    def to_json(self) -> dict[str, object]:
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype}

    @staticmethod
    def from_json(data: object, where: str = "a tensor") -> TensorSpec:
        """The spec that :meth:`to_json` gave. Raises ArtifactError that says what is wrong with another."""
        fields = object_of(data, where, ("name", "shape", "dtype"))
        dtype = text_of(fields["dtype"], at(where, "dtype"))
        return TensorSpec(text_of(fields["name"], at(where, "name")), shape_of(fields["shape"], dtype, where), dtype)

    @functools.cached_property
    def fixed_shape(self) -> tuple[int, ...] | None:
        """The shape where it has no free dimension, else None."""
        known = tuple(d for d in self.shape if isinstance(d, int))
        return known if len(known) == len(self.shape) else None

    def concrete_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape with each name replaced by its size. Raises KeyError for an unbound name or an unknown size."""
        if self.fixed_shape is not None:
            return self.fixed_shape
        return tuple(d if isinstance(d, int) else sizes[d] for d in self.shape)  # type: ignore[index]  # None is a KeyError too

    def bind(self, array: Shaped, sizes: Sizes) -> None:
        """Check *array* against this spec and add the sizes of its named dimensions to *sizes*.

        Raises InputError naming the input, what was expected and what was found.
        """
        if array.shape == self.fixed_shape and dtype_name(array.dtype) == self.dtype:
            return
        if dtype_name(array.dtype) != self.dtype:
            raise InputError(
                f"input {self.name!r}: expected dtype {self.dtype}, got {dtype_name(array.dtype)}; "
                f"convert it with .astype({'str' if self.dtype == 'string' else self.dtype!r})"
            )
        found = tuple(array.shape)
        fits = len(found) == len(self.shape)
        for want, got in zip(self.shape, found, strict=False):
            expected = sizes.bind(want, got) if isinstance(want, str) else want
            fits = fits and expected in (None, got)
        if not fits:
            bound = {d: sizes[d] for d in self.shape if isinstance(d, str) and sizes.determines(d)}
            where = f" with {', '.join(f'{k}={v}' for k, v in bound.items())}" if bound else ""
            raise InputError(f"input {self.name!r}: expected shape {self}{where}, got {list(found)}")

    def __str__(self) -> str:
        return f"[{', '.join('?' if d is None else str(d) for d in self.shape)}]"


def listed(specs: Sequence[TensorSpec]) -> str:
    """The first of *specs*, for a line."""
    shown = ", ".join(f"{s.name}: {s.dtype}{s}" for s in specs[:MOST_SHOWN])
    return f"{shown}, ..." if len(specs) > MOST_SHOWN else shown


def symbol_of(data: object, where: str, of_c: bool = False) -> str:
    """*data* as the name of a function of a module, with *of_c* an identifier. Raises ArtifactError for another."""
    name = text_of(data, where)
    if not 0 < len(name) <= MOST_LETTERS or not name.isprintable() or (of_c and not _IDENTIFIER.fullmatch(name)):
        raise ArtifactError(f"{where}: {name[:80]!r} is no name of a function")
    return name


def shape_of(data: object, dtype: str, where: str) -> tuple[Dim, ...]:
    """The dimensions in *data* for a tensor of *dtype*. Raises ArtifactError where there can be no such tensor."""
    dims = list_of(data, at(where, "shape"))
    if len(dims) > MOST_DIMENSIONS:
        raise ArtifactError(f"{where}: {len(dims)} dimensions, and numpy has at most {MOST_DIMENSIONS}")
    shape = tuple(
        d if d is None else text_of(d, at(where, "shape")) if isinstance(d, str) else number_of(d, at(where, "shape"))
        for d in dims
    )
    size = math.prod(d for d in shape if isinstance(d, int) and d) * item_bytes(dtype, where)
    if size > MOST_NUMBER:
        raise ArtifactError(f"{where}: {dtype}{list(shape)} takes {size:,} bytes, more than a process can address")
    return shape


@functools.cache
def _item_bytes(dtype: str) -> int:
    """The bytes of one element of *dtype*; 0 for a name that no tensor has."""
    if dtype in BITS:
        return max(BITS[dtype] // 8, 1)  # also where the package is missing that numpy knows it by
    try:
        found = numpy_dtype(dtype)
    except (UserError, ValueError):
        return 0
    return found.itemsize if dtype_name(found) == dtype and found.type is not np.void and found.itemsize <= 16 else 0


def item_bytes(dtype: str, where: str) -> int:
    """The bytes of one element of *dtype*. Raises ArtifactError for a name that no tensor has."""
    size = _item_bytes(dtype) if dtype.isidentifier() else 0
    if not size:
        raise ArtifactError(f"{where}: {dtype!r} is no dtype of a tensor")
    return size


@dataclass(frozen=True)
class Signature:
    """The calling convention of a symbol: inputs, then (once, at initialisation) constants, then outputs.

    ``checks`` name the checks of indices that it makes, by their numbers (``errors.py``). ``temporary_sizes`` are
    the sizes inside of it that stand in no input and no output.
    """

    symbol: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    constants: tuple[TensorSpec, ...] = ()
    checks: tuple[str, ...] = ()
    temporary_sizes: tuple[str, ...] = ()

    @property
    def size_names(self) -> tuple[str, ...]:
        """The names of the sizes that generated code is given, in their order."""
        named = (d for s in (*self.inputs, *self.outputs) for d in s.shape if isinstance(d, str))
        return tuple(dict.fromkeys([*named, *self.temporary_sizes]))

    def to_json(self) -> dict[str, object]:
        return {
            "symbol": self.symbol,
            **{k: [s.to_json() for s in getattr(self, k)] for k in ("inputs", "outputs", "constants")},
            **({"checks": list(self.checks)} if self.checks else {}),
            **({"temporary_sizes": list(self.temporary_sizes)} if self.temporary_sizes else {}),
        }

    @staticmethod
    def from_json(data: object, where: str = "a signature") -> Signature:
        """The signature that :meth:`to_json` gave. Raises ArtifactError that says what is wrong with another."""
        kinds = ("inputs", "outputs", "constants")
        fields = object_of(data, where, ("symbol", *kinds), ("checks", "temporary_sizes"))
        parts = {k: tuple(TensorSpec.from_json(s, place) for place, s in numbered(fields, k, where)) for k in kinds}
        if any(not isinstance(d, int) for spec in parts["constants"] for d in spec.shape):
            raise ArtifactError(f"{where}.constants: a constant has a dimension of unknown size")
        checks = texts_of(fields.get("checks", []), at(where, "checks"))
        sizes = texts_of(fields.get("temporary_sizes", []), at(where, "temporary_sizes"))
        symbol = symbol_of(fields["symbol"], at(where, "symbol"))
        return Signature(symbol, **parts, checks=checks, temporary_sizes=sizes)

    @staticmethod
    def list_from_json(data: object, where: str) -> list[Signature]:
        """Several signatures, each of a symbol of its own. Raises ArtifactError."""
        found = [Signature.from_json(item, at(where, k)) for k, item in enumerate(list_of(data, where))]
        if len({s.symbol for s in found}) != len(found):
            raise ArtifactError(f"{where}: a symbol stands in it twice")
        return found

    def check_numbers(self, names: Sequence[str]) -> list[int]:
        """The numbers of the checks *names*; of one that is not declared, the number behind all."""
        return [self.checks.index(name) if name in self.checks else len(self.checks) for name in names]

    def divided(self, arrays: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
        """The inputs and the outputs of a call with *arrays*. Raises InputError where these are not so many."""
        count = len(self.inputs)
        if len(arrays) != count + len(self.outputs):
            raise InputError(
                f"{self.symbol}: expected {count} inputs and {len(self.outputs)} outputs, got {len(arrays)} arrays"
            )
        return arrays[:count], arrays[count:]

    def bind_sizes(self, inputs: Sequence[Shaped]) -> Sizes:
        """The sizes of the named dimensions, from the inputs. Raises InputError when an input does not fit."""
        if len(inputs) != len(self.inputs):
            raise InputError(f"{self.symbol}: expected {len(self.inputs)} inputs, got {len(inputs)}")
        sizes = Sizes()
        for spec, array in zip(self.inputs, inputs, strict=True):
            spec.bind(array, sizes)
        return sizes

    def check_known(self, spec: TensorSpec, sizes: Sizes) -> None:
        """Raises InputError for an output whose size *sizes* do not determine."""
        if any(not (isinstance(d, int) or sizes.determines(d)) for d in spec.shape):
            raise InputError(f"{self.symbol}: output {spec.name}{spec} has a size that its inputs do not determine")

    def empty_outputs(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """New arrays for the outputs, as large as *inputs* say.

        Raises InputError when an input does not fit or does not determine a size.
        """
        sizes = self.bind_sizes(inputs)
        for spec in self.outputs:
            self.check_known(spec, sizes)
        return [np.empty(spec.concrete_shape(sizes), numpy_dtype(spec.dtype)) for spec in self.outputs]
