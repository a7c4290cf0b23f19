"""What a compiled function takes and gives: tensors with static or named dimensions.

A dimension is an int, a name (a size that is found in the inputs when the function is called), or None for one that
is known only after the function ran. The same description stands in saved modules, in the artefact's manifest and
in the graph executor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.runtime.errors import InputError
from byoc.runtime.ndarray import dtype_name, numpy_dtype

Dim = int | str | None


@dataclass(frozen=True)
class TensorSpec:
    """A tensor's name, shape and dtype."""

    name: str
    shape: tuple[Dim, ...]
    dtype: str

    def to_json(self) -> dict[str, object]:
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype}

    @staticmethod
    def from_json(data: Mapping[str, object]) -> TensorSpec:
        return TensorSpec(str(data["name"]), tuple(data["shape"]), str(data["dtype"]))  # type: ignore[arg-type]

    def concrete_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape with each name replaced by its size. Raises KeyError for an unbound name or an unknown size."""
        return tuple(d if isinstance(d, int) else sizes[d] for d in self.shape)  # type: ignore[index]

    def bind(self, array: np.ndarray, sizes: dict[str, int]) -> None:
        """Check *array* against this spec and add the sizes of its named dimensions to *sizes*.

        Raises InputError naming the input, what was expected and what was found.
        """
        if dtype_name(array.dtype) != self.dtype:
            raise InputError(
                f"input {self.name!r}: expected dtype {self.dtype}, got {dtype_name(array.dtype)}; "
                f"convert it with .astype({self.dtype!r})"
            )
        found = tuple(array.shape)
        fits = len(found) == len(self.shape)
        for want, got in zip(self.shape, found, strict=False):
            expected = sizes.setdefault(want, got) if isinstance(want, str) else want
            fits = fits and expected in (None, got)
        if not fits:
            bound = {d: sizes[d] for d in self.shape if isinstance(d, str) and d in sizes}
            where = f" with {', '.join(f'{k}={v}' for k, v in bound.items())}" if bound else ""
            raise InputError(f"input {self.name!r}: expected shape {self}{where}, got {list(found)}")

    def __str__(self) -> str:
        return f"[{', '.join('?' if d is None else str(d) for d in self.shape)}]"


@dataclass(frozen=True)
class Signature:
    """The calling convention of a symbol: inputs, then (once, at initialisation) constants, then outputs.

    ``checks`` name the checks of indices that it makes, by their numbers (``index_errors.py``).
    """

    symbol: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    constants: tuple[TensorSpec, ...] = ()
    checks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "symbol": self.symbol,
            **{k: [s.to_json() for s in getattr(self, k)] for k in ("inputs", "outputs", "constants")},
            **({"checks": list(self.checks)} if self.checks else {}),
        }

    @staticmethod
    def from_json(data: Mapping[str, object]) -> Signature:
        parts = {
            k: tuple(TensorSpec.from_json(s) for s in data[k])  # type: ignore[attr-defined]
            for k in ("inputs", "outputs", "constants")
        }
        checks = tuple(str(c) for c in data.get("checks", ()))  # type: ignore[attr-defined]
        return Signature(str(data["symbol"]), **parts, checks=checks)

    def check_numbers(self, names: Sequence[str]) -> list[int]:
        """The numbers of the checks *names*; of one that is not declared, the number behind all."""
        return [self.checks.index(name) if name in self.checks else len(self.checks) for name in names]

    def bind_sizes(self, inputs: Sequence[np.ndarray]) -> dict[str, int]:
        """The sizes of the named dimensions, from the inputs. Raises InputError when an input does not fit."""
        if len(inputs) != len(self.inputs):
            raise InputError(f"{self.symbol}: expected {len(self.inputs)} inputs, got {len(inputs)}")
        sizes: dict[str, int] = {}
        for spec, array in zip(self.inputs, inputs, strict=True):
            spec.bind(array, sizes)
        return sizes

    def empty_outputs(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """New arrays for the outputs, as large as *inputs* say.

        Raises InputError when an input does not fit or does not tell a size.
        """
        sizes = self.bind_sizes(inputs)
        for spec in self.outputs:
            if any(d is None or (isinstance(d, str) and d not in sizes) for d in spec.shape):
                raise InputError(f"{self.symbol}: output {spec.name}{spec} has a size that its inputs do not tell")
        return [np.empty(spec.concrete_shape(sizes), numpy_dtype(spec.dtype)) for spec in self.outputs]
