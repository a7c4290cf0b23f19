"""``byoc.debug.statistics``: what numbers stand between the operators of a model: a row for each tensor of one run.

Where a mean runs away, a deviation falls to nothing or the first NaN stands, precision is lost. Source: the precision
profiler of Paddle-Lite (``lite/core/profile/precision_profiler.h``), whose ``ave_grow_rate`` this has too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np

from byoc.debug.options import StatisticsRequest
from byoc.debug.unfused import compile_unfused
from byoc.debug.values import InnerValue, values_of
from byoc.errors import UserError
from byoc.options.entry import takes
from byoc.runtime.core.ndarray import dtype_name
from byoc.runtime.library import Library
from byoc.testing.core.inputs import seeded_inputs

_ABOUT = ("name", "nodes", "function", "dtype", "shape")  # fields that are no numbers of a table
EPSILON = 1e-5  # of Paddle-Lite, under which a number does not divide


@dataclass(frozen=True)
class TensorStatistics:
    """A tensor: the *mean*, *std*, *min* and *max* of its finite numbers, and how many are NaN or infinite.

    *growth* is the root mean square of its finite numbers over that of the largest tensor that its operator read; None
    where that is zero or nothing was read. *ave_grow_rate* is Paddle-Lite's: the mean, over the tensor in its order, of
    ``(x[i] - x[i - 1]) / (x[i - 1] + 1e-5)``, of finite numbers.
    """

    name: str
    nodes: tuple[str, ...]
    function: str
    dtype: str
    shape: tuple[int, ...]
    mean: float
    std: float
    min: float
    max: float
    nans: int
    infinite: int
    growth: float | None
    ave_grow_rate: float


@dataclass(frozen=True)
class ValueStatistics:
    """The rows of one run, in the order in which their tensors are computed; ``str()`` is their table."""

    model: str
    rows: tuple[TensorStatistics, ...]

    @property
    def first_not_finite(self) -> TensorStatistics | None:
        """The first tensor with a NaN or an infinite number."""
        return next((row for row in self.rows if row.nans or row.infinite), None)

    def to_json(self) -> dict[str, object]:
        """The rows as values that ``json.dumps`` takes: dictionaries by the names of the fields."""
        where = self.first_not_finite
        rows = [asdict(row) for row in self.rows]
        return {"model": self.model, "tensors": rows, "first_not_finite": where.name if where else None}

    def table(self, most: int | None = None) -> str:
        """The first *most* rows as text (None for all)."""
        width = max((len(r.name) for r in self.rows), default=6)
        names = [f.name for f in fields(TensorStatistics) if f.name not in _ABOUT]
        lines = [f"{self.model}: {len(self.rows)} tensors of one run"]
        lines.append(f"{'tensor':{width}}  {'type':24}" + "".join(f"  {name:>11}" for name in names))
        lines += [_line(row, width) for row in self.rows[:most]]
        if most is not None and len(self.rows) > most:
            lines.append(f"... {len(self.rows) - most} more; --all has them")
        where = self.first_not_finite
        if where is not None:
            lines.append(f"first tensor that is not finite: {where.name} ({where.nans} NaN, {where.infinite} infinite)")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


@takes(StatisticsRequest, "byoc.debug.statistics")
def statistics(asked: StatisticsRequest) -> ValueStatistics:
    """Run a model once, and report mean, deviation, extremes and growth of each tensor in it.

    Of an ONNX model each operator is compiled alone, so that every value is seen; of a library those are that stand
    between its regions and groups.

    Returns:
        The rows: ``str(found)``, ``found.rows``, ``found.first_not_finite``.

    Raises:
        UserError: the model does not compile or run, or has no input of a name that is given.
    """
    if isinstance(asked.model, Library):
        library = asked.model
    else:
        targets = [asked.targets] if isinstance(asked.targets, str) else list(asked.targets)
        library = compile_unfused(asked.model, targets, asked)
    known = [s.name for s in library.inputs]
    unknown = [name for name in asked.inputs or {} if name not in known]
    if unknown:
        raise UserError(f"the model has no input {unknown[0]!r}; its inputs are {', '.join(known)}")
    arrays: Mapping[str, np.ndarray] = {
        **seeded_inputs(library.inputs, asked.sizes or {}, asked.seed),
        **(asked.inputs or {}),
    }
    rows = tuple(_row(value) for value in values_of(library, arrays, with_read=True) if _is_numbers(value.array))
    return ValueStatistics("model", rows)


def _is_numbers(array: np.ndarray) -> bool:
    return not array.dtype.hasobject


def _row(value: InnerValue) -> TensorStatistics:
    array = value.array.astype("float64").ravel()
    finite = array[np.isfinite(array)]
    mean, std, least, most = (
        (float(finite.mean()), float(finite.std()), float(finite.min()), float(finite.max()))
        if finite.size
        else (0.0, 0.0, 0.0, 0.0)
    )
    nans = int(np.isnan(array).sum())
    read = max((_size(a) for a in value.read if _is_numbers(a)), default=0.0)
    return TensorStatistics(
        value.name,
        value.nodes,
        value.function,
        dtype_name(value.array.dtype),
        tuple(value.array.shape),
        mean,
        std,
        least,
        most,
        nans,
        array.size - finite.size - nans,
        _size(value.array) / read if read else None,
        _average_grow_rate(finite),
    )


def _size(array: np.ndarray) -> float:
    """The root mean square of the finite numbers of *array*; 0 where there are none."""
    wide = array.astype("float64").ravel()
    finite = wide[np.isfinite(wide)]
    largest = float(np.abs(finite).max(initial=0))
    return largest * math.sqrt(float(np.square(finite / largest).mean())) if largest else 0.0


def _average_grow_rate(numbers: np.ndarray) -> float:
    if numbers.size < 2:
        return 0.0
    with np.errstate(all="ignore"):
        rates = (numbers[1:] - numbers[:-1]) / (numbers[:-1] + EPSILON)
    return float(np.where(np.isfinite(rates), rates, 0).sum() / numbers.size)


def _line(row: TensorStatistics, width: int) -> str:
    kind = f"{row.dtype}[{', '.join(map(str, row.shape))}]"
    growth = "" if row.growth is None else f"{row.growth:.4g}"
    numbers: Sequence[str] = [f"{n:.4g}" for n in (row.mean, row.std, row.min, row.max)]
    counts = [str(n) if n else "" for n in (row.nans, row.infinite)]
    cells = [*numbers, *counts, growth, f"{row.ave_grow_rate:.4g}"]
    return f"{row.name:{width}}  {kind:24}" + "".join(f"  {cell:>11}" for cell in cells)
