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
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from byoc.base.progress import silent
from byoc.contract.options import HOST_BACKEND
from byoc.debug.comparison import Comparison, TensorRow
from byoc.debug.element_order import exchanged, is_reordered
from byoc.debug.limits import ErrorLimits
from byoc.debug.options import CompareRequest
from byoc.debug.sides import ComparedSide, LostSideError, SideRun
from byoc.debug.values import InnerValue
from byoc.errors import UserError
from byoc.options.entry import takes
from byoc.runtime.core.ndarray import dtype_name
from byoc.runtime.library import Library
from byoc.testing.core.difference import errors
from byoc.testing.core.inputs import seeded_inputs


@takes(CompareRequest, "byoc.compare")
def compare(asked: CompareRequest) -> Comparison:
    """Compare the outputs and the values inside of two artefacts, or of a model on two backends.

    Each side is compiled or loaded, and run, in a process of its own: what crashes there, ends it, or comes to no end
    is reported with the side, its step and the node.

    Returns:
        The comparison: ``str(found)``, ``found.ok``, ``found.diverging``, ``found.rows``, ``found.lost``.

    Raises:
        UserError: what is given does not compile or load, or the two do not take the same inputs.
    """
    with tempfile.TemporaryDirectory() as folder:
        names, sent = _sent(asked, Path(folder))
        try:
            with ComparedSide(sent, 0, names[0]) as one, ComparedSide(sent, 1, names[1]) as other:
                return _compared(asked, one, other)
        except LostSideError as error:
            return Comparison(*names, (), lost=error.lost)


def _compared(asked: CompareRequest, one: ComparedSide, other: ComparedSide) -> Comparison:
    """What the two sides give on the same inputs. Raises UserError, and LostSideError."""
    progress = asked.progress or silent
    progress(f"preparing {one.name}")
    specs = one.specs()
    progress(f"preparing {other.name}")
    wanted = {s.name: (s.dtype, s.shape) for s in specs}
    if {s.name: (s.dtype, s.shape) for s in other.specs()} != wanted:
        raise UserError(f"{one.name} and {other.name} do not take the same inputs: they are of different models")
    given = dict(asked.inputs or {})
    unknown = [name for name in given if name not in wanted]
    if unknown:
        raise UserError(f"the models have no input {unknown[0]!r}; their inputs are {', '.join(wanted)}")
    arrays = {**seeded_inputs(specs, asked.sizes or {}, asked.seed), **given}
    progress(f"running {one.name}")
    before = one.run(arrays)
    progress(f"running {other.name}")
    after = other.run(arrays)
    limits = ErrorLimits.of(asked.tolerance, asked.snr, asked.precision)
    found = _Found(limits, has_layouts=asked.second is not None)
    if before.values and after.values:
        found.compare(before.values, after.values)
    rows = found.rows + _outputs(before, after, found.limits)
    return Comparison(one.name, other.name, tuple(rows), tuple(found.unmatched), tuple(found.reordered))


def _sent(asked: CompareRequest, folder: Path) -> tuple[tuple[str, str], CompareRequest]:
    """The names of the sides, and *asked* as a process can be sent it: libraries are saved in *folder*.

    Raises UserError for what is not compared, and for a library that cannot be saved.
    """
    targets = [asked.targets] if isinstance(asked.targets, str) else list(asked.targets)
    if asked.second is None:
        if isinstance(asked.first, Library):
            raise UserError("compare takes two libraries, or a model and two targets")
        sides = _sides(targets)
        if len(sides) != 2:
            raise UserError(
                f"a model is compared on two targets, got {', '.join(targets) or 'none'}; write -t c -t acme (each is "
                "compiled with the host beside it)"
            )
        return (sides[0], sides[1]), replace(asked, targets=sides)
    if targets:
        raise UserError("targets are of a model: give an ONNX model and two targets, or two artefacts without any")
    one, first = _file(asked.first, folder / "first.byoc")
    other, second = _file(asked.second, folder / "second.byoc")
    names = (f"{one} (first)", f"{other} (second)") if one == other else (one, other)
    return names, replace(asked, first=first, second=second)


def _sides(targets: Sequence[str]) -> list[str]:
    """The two of *targets* that are meant: of ``acme,c`` against ``c``, or against ``blas,c``, the host stands once."""
    if len(targets) <= 2:
        return list(targets)
    distinct = list(dict.fromkeys(targets))
    return distinct if len(distinct) <= 2 else [t for t in distinct if t not in (HOST_BACKEND, "host")]


def _file(given: object, place: Path) -> tuple[str, Path]:
    """What a side is called, and its file; a library is saved at *place*."""
    if isinstance(given, Library):
        return "library", given.save(place)
    if not isinstance(given, (str, os.PathLike)):
        raise UserError(
            f"two artefacts or libraries are compared, got a {type(given).__name__}; a model has two targets"
        )
    return Path(given).name, Path(given)


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

    def compare(self, before: Sequence[InnerValue], after: Sequence[InnerValue]) -> None:
        """Put the values of the two runs into rows, by name, in the order of the first."""
        mine, others = _by_name(before), _by_name(after)
        for name, values in mine.items():
            there = others.get(name, [])
            pairs = _pairs(values, there)
            self.unmatched += [name] * (max(len(values), len(there)) - len(pairs))
            for k, (value, other) in enumerate(pairs):
                self._add(name if len(pairs) == 1 else f"{name} ({k + 1} of {len(pairs)})", value, other)
        self.unmatched += [name for name in others if name not in mine]

    def _add(self, shown: str, value: InnerValue, other: InnerValue) -> None:
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


def _by_name(values: Sequence[InnerValue]) -> dict[str, list[InnerValue]]:
    found: dict[str, list[InnerValue]] = {}
    for value in values:
        found.setdefault(value.name, []).append(value)
    return found


def _pairs(mine: Sequence[InnerValue], others: Sequence[InnerValue]) -> list[tuple[InnerValue, InnerValue]]:
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


def _nearness(other: InnerValue, value: InnerValue) -> float:
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


def _outputs(one: SideRun, other: SideRun, limits: ErrorLimits) -> list[TensorRow]:
    """A row for each output, as users get it. Raises UserError where their numbers differ."""
    if len(one.outputs) != len(other.outputs):
        raise UserError(f"the first gives {len(one.outputs)} outputs, the second {len(other.outputs)}")
    pairs = zip(one.outputs, other.outputs, strict=True)
    return [_row(name, (), (got, want), limits, is_output=True) for (name, want), (_, got) in pairs]


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
