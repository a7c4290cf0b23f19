"""``byoc.compare``: two compiled models on the same inputs, value by value, in the order of the first.

Values are matched by the ONNX nodes that they come from. A model is compiled for it with each operator (or pattern) in
a region or a group of its own, the host's values in the model's layout, so that every value is seen; of an artefact
those between groups and regions are. Two artefacts may hold a value in orders of their own (a layout that a host chose,
flattened): it is compared in the order of the first where that is found (:mod:`byoc.debug.element_order`), else not at
all, and the comparison says so. Values of nodes that one run has computed further than the other are not matched. The
outputs are those that users get, of what is compiled as always.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from byoc.debug.comparison import Comparison, TensorRow
from byoc.debug.element_order import exchanged, is_reordered
from byoc.debug.limits import ErrorLimits
from byoc.debug.options import CompareRequest
from byoc.debug.unfused import HOST, compile_unfused
from byoc.debug.values import Value, values_of
from byoc.driver.compiler.entry import compile as compile_model
from byoc.errors import UserError
from byoc.options.entry import takes
from byoc.runtime.core.ndarray import dtype_name
from byoc.runtime.library import Library
from byoc.runtime.loading import load
from byoc.testing.core.difference import errors
from byoc.testing.core.inputs import seeded_inputs


@takes(CompareRequest, "byoc.compare")
def compare(asked: CompareRequest) -> Comparison:
    """Compare the outputs and the values inside of two artefacts, or of a model on two backends.

    Returns:
        The comparison: ``str(found)``, ``found.ok``, ``found.diverging``, ``found.rows``.

    Raises:
        UserError: what is given does not compile or load, or the two do not take the same inputs.
    """
    one, other = _compared(asked)
    first, second = one.name, other.name
    specs = one.whole.inputs
    wanted = {s.name: (s.dtype, s.shape) for s in specs}
    if {s.name: (s.dtype, s.shape) for s in other.whole.inputs} != wanted:
        raise UserError(f"{first} and {second} do not take the same inputs: they are of different models")
    given = dict(asked.inputs or {})
    unknown = [name for name in given if name not in wanted]
    if unknown:
        raise UserError(f"the models have no input {unknown[0]!r}; their inputs are {', '.join(wanted)}")
    arrays = {**seeded_inputs(specs, asked.sizes or {}, asked.seed), **given}
    tell: Callable[[str], None] = asked.progress or _silent
    tell(f"running {first}")
    before = values_of(one.split, arrays)
    tell(f"running {second}")
    after = values_of(other.split, arrays)
    found = _Found(ErrorLimits(asked.tolerance or {}, asked.snr), has_layouts=asked.second is not None)
    found.compare(before, after)
    rows = found.rows + _outputs(one.whole, other.whole, arrays, found.limits)
    return Comparison(first, second, tuple(rows), tuple(found.unmatched), tuple(found.reordered))


@dataclass(frozen=True)
class _Compared:
    """What is compared: as users run it, and in the pieces whose values are looked at."""

    name: str
    whole: Library
    split: Library


def _compared(asked: CompareRequest) -> Sequence[_Compared]:
    targets = [asked.targets] if isinstance(asked.targets, str) else list(asked.targets)
    if asked.second is not None:
        if targets:
            raise UserError("targets are of a model: give an ONNX model and two targets, or two artefacts without any")
        one, other = (_loaded(given) for given in (asked.first, asked.second))
        if one.name == other.name:
            return [replace(one, name=f"{one.name} (first)"), replace(other, name=f"{other.name} (second)")]
        return [one, other]
    if isinstance(asked.first, Library):
        raise UserError("compare takes two libraries, or a model and two targets")
    if len(targets) != 2:
        raise UserError(f"a model is compared on two targets, got {', '.join(targets) or 'none'}; write -t c -t acme")
    return [_compiled(asked, target) for target in targets]


def _compiled(asked: CompareRequest, target: str) -> _Compared:
    """The model of *asked* for one target: as users have it, and with each operator in a region or group of its own."""
    tell: Callable[[str], None] = asked.progress or _silent
    tell(f"compiling for {target}")
    cut = [HOST] if target in (HOST, "host") else [target, HOST]
    assert not isinstance(asked.first, Library)
    whole = compile_model(asked.first, cut, shapes=asked.shapes, pipeline=asked.pipeline)
    tell(f"compiling for {target}, operator by operator")
    split = compile_unfused(asked.first, cut, asked)
    return _Compared(target, whole, split)


def _loaded(given: object) -> _Compared:
    if isinstance(given, Library):
        return _Compared("library", given, given)
    if not isinstance(given, (str, os.PathLike)):
        raise UserError(
            f"two artefacts or libraries are compared, got a {type(given).__name__}; a model has two targets"
        )
    path = Path(given)
    library = compile_model(path, [HOST]) if path.suffix == ".onnx" else load(path)
    return _Compared(path.name, library, library)


@dataclass
class _Found:
    """What the values of two runs make: rows of those that both have, and the names of the others.

    Where *has_layouts*, the hosts may have chosen layouts of their own. *reordered* are values of the same numbers in
    an order that is not found.
    """

    limits: ErrorLimits
    has_layouts: bool
    rows: list[TensorRow] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    reordered: list[str] = field(default_factory=list)

    def compare(self, before: Sequence[Value], after: Sequence[Value]) -> None:
        """Put the values of the two runs into rows, by name, in the order of the first."""
        mine, others = _by_name(before), _by_name(after)
        for name, values in mine.items():
            there = others.get(name, [])
            pairs = _pairs(values, there)
            self.unmatched += [name] * (max(len(values), len(there)) - len(pairs))
            for k, (value, other) in enumerate(pairs):
                self._add(name if len(pairs) == 1 else f"{name} ({k + 1} of {len(pairs)})", value, other)
        self.unmatched += [name for name in others if name not in mine]

    def _add(self, shown: str, value: Value, other: Value) -> None:
        like, leaves = value.array, self.limits.leaves
        array, moved = _alike(other.array, like), False
        if self.has_layouts and (array is None or leaves(array, like)):
            found = exchanged(other.array, like, leaves)
            if found is None and is_reordered(other.array, like, leaves):
                self.reordered.append(shown)
                return
            array, moved = (array, False) if found is None else (found, True)
        if array is None or (not (value.is_whole and other.is_whole) and leaves(array, like)):
            self.unmatched.append(shown)  # of parts of a node, which the two may have cut at different places
        else:
            self.rows.append(_row(shown, value.nodes, (array, like), self.limits, moved=moved))


def _by_name(values: Sequence[Value]) -> dict[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    for value in values:
        found.setdefault(value.name, []).append(value)
    return found


def _pairs(mine: Sequence[Value], others: Sequence[Value]) -> list[tuple[Value, Value]]:
    """The values of one ONNX node in both runs.

    Where one run has fewer of them, since it has computed some within others, each is matched with the nearest.
    """
    if not mine or not others:
        return []
    if len(mine) == len(others):
        return list(zip(mine, others, strict=True))
    if len(mine) < len(others):
        return [(value, max(others, key=lambda o: _nearness(o, value))) for value in mine]
    return [(max(mine, key=lambda m: _nearness(value, m)), value) for value in others]


def _nearness(other: Value, value: Value) -> float:
    array = _alike(other.array, value.array)
    return -math.inf if array is None else errors(array, value.array).snr_db


def _alike(array: np.ndarray, like: np.ndarray) -> np.ndarray | None:
    """*array* in the order of axes of *like*; None where it is another tensor."""
    if array.shape == like.shape:
        return array
    if array.ndim == like.ndim and array.ndim > 2:  # channels last, on one side
        for moved in (np.moveaxis(array, -1, 1), np.moveaxis(array, 1, -1)):
            if moved.shape == like.shape:
                return moved
    return None


def _outputs(one: Library, other: Library, arrays: Mapping[str, np.ndarray], limits: ErrorLimits) -> list[TensorRow]:
    """A row for each output, as users get it."""
    pairs = zip(one.outputs, one.run(arrays), other.run(arrays), strict=True)
    return [_row(spec.name, (), (got, want), limits, is_output=True) for spec, want, got in pairs]


def _row(
    name: str,
    nodes: tuple[str, ...],
    pair: tuple[np.ndarray, np.ndarray],
    limits: ErrorLimits,
    is_output: bool = False,
    moved: bool = False,
) -> TensorRow:
    got, want = pair
    problem = limits.leaves(got, want) or ""
    return TensorRow(name, nodes, dtype_name(want.dtype), want.shape, errors(got, want), problem, is_output, moved)


def _silent(stage: str) -> None:
    """Progress that nobody watches."""
