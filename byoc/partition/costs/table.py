"""A vendor's numbers: a JSON file, or a Python function ``(unit, place) -> seconds``.

The JSON file, every part of which but ``format`` and ``operators`` may be left out::

    {
      "format": "byoc.costs/1",
      "name": "Acme NPU, board A",
      "launch": 2e-5,
      "transfer": {"latency": 1e-5, "upload": 8e9, "download": 6e9},
      "operators": {
        "nn.softmax": 1.5e-5,
        "nn.conv2d": {"seconds": 2e-6, "per_operation": 2.5e-13, "per_byte": 1e-11},
        "acme.conv2d_relu": {"per_operation": 2.2e-13}
      },
      "default": {"seconds": 2e-6, "per_byte": 4e-11},
      "precisions": {"int8": {"operators": {"nn.conv2d": {"per_operation": 6e-14}}}}
    }

An operator is named as Relay names it, a pattern as its composite. Its entry is seconds, or seconds for each call, for
each operation (a multiply-add is two) and for each byte that it reads and writes, constants too. ``precisions`` has
what differs in a precision; ``default`` stands for operators that are not named, without which they are an error.
``launch`` is seconds a region; ``upload`` and ``download`` are bytes a second from and to the host, ``latency`` is
seconds a transfer.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from byoc.contract.verdict import callee_name
from byoc.errors import PartitionError, in_one_line
from byoc.partition.costs.model import (
    CostModel,
    Estimate,
    UnitPlace,
    backend_of,
    checked,
    described,
    float_of,
    inner_calls,
    precision_name,
)
from byoc.partition.costs.work import call_operations, size
from byoc.relay.expr import Call
from byoc.runtime.files.whole_file import read_text

FORMAT = "byoc.costs/1"
CostFunction = Callable[[Call, UnitPlace], float]
_TERMS = ("seconds", "per_operation", "per_byte")
_TRANSFER = ("latency", "upload", "download")
_KNOWN = ("format", "name", "launch", "transfer", "operators", "default", "precisions")


@dataclass(frozen=True)
class CostTerms:
    """What one call costs: seconds, and seconds for each operation and for each byte."""

    seconds: float = 0.0
    per_operation: float = 0.0
    per_byte: float = 0.0

    def of(self, call: Call) -> float:
        """The seconds of *call*; a composite has the operations of its calls and the bytes at its border."""
        operations = sum(map(call_operations, inner_calls(call))) if self.per_operation else 0
        moved = sum(size(a.checked_type) for a in call.args) + size(call.checked_type) if self.per_byte else 0
        return self.seconds + self.per_operation * operations + self.per_byte * moved


@dataclass(frozen=True)
class Prices:
    """The entries of operators and patterns by name, and that of all others."""

    operators: Mapping[str, CostTerms] = field(default_factory=dict)
    default: CostTerms | None = None


@dataclass(frozen=True)
class Table:
    """A vendor's numbers as read: *source* is the file, for messages."""

    source: str
    prices: Prices
    precisions: Mapping[str, Prices] = field(default_factory=dict)
    launch: float = 0.0
    latency: float = 0.0
    upload: float = math.inf
    download: float = math.inf

    @staticmethod
    def load(file: str | os.PathLike[str]) -> Table:
        """The table in *file*. Raises PartitionError where it cannot be read or is none."""
        path = Path(file)
        try:
            data = json.loads(read_text(path))
        except OSError as error:
            raise PartitionError(f"{path}: the cost table cannot be read ({error.strerror or error})") from error
        except (ValueError, RecursionError) as error:
            raise PartitionError(f"{path}: a cost table must be JSON: {error}") from error
        return Table.from_json(data, str(path))

    @staticmethod
    def from_json(data: object, source: str = "a cost table") -> Table:
        """The table of its values. Raises PartitionError naming what is wrong in it."""
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            found = data.get("format") if isinstance(data, Mapping) else type(data).__name__
            raise PartitionError(f'{source}: a cost table has "format": "{FORMAT}", got {found!r}')
        _only(data, _KNOWN, "a cost table", source)
        if "operators" not in data:
            raise PartitionError(f'{source}: a cost table has "operators", this one has none')
        precisions = _mapping(data.get("precisions", {}), "precisions", source)
        transfer = _mapping(data.get("transfer", {}), "transfer", source)
        _only(transfer, _TRANSFER, "transfer", source)
        return Table(
            source,
            _prices(data, "", source),
            {precision_name(name): _prices(p, f"precisions.{name}.", source) for name, p in precisions.items()},
            _number(data.get("launch", 0.0), "launch", source),
            _number(transfer.get("latency", 0.0), "transfer.latency", source),
            _rate(transfer, "upload", source),
            _rate(transfer, "download", source),
        )

    def terms(self, call: Call, precision: str) -> CostTerms | None:
        """The entry of *call* in *precision*: the precision's before the general, a name's before a default."""
        name, special = callee_name(call), self.precisions.get(precision_name(precision))
        for prices in (special, self.prices):
            if prices is not None and name in prices.operators:
                return prices.operators[name]
        return next((p.default for p in (special, self.prices) if p is not None and p.default is not None), None)


class TableModel(CostModel):
    """The numbers of *backend* as its vendor gives them."""

    def __init__(self, backend: str, table: Table):
        self.backend, self.table = backend, table
        self.name = f"table {Path(table.source).name}"

    def units(self, calls: Sequence[Call], target: str, precision: str = "") -> list[Estimate]:
        return [self._unit(call, precision) for call in calls]

    def _unit(self, call: Call, precision: str) -> Estimate:
        terms = self.table.terms(call, precision)
        if terms is None:
            raise PartitionError(
                f"backend {self.backend!r}: {self.table.source} has no cost of {described(call)}"
                f'{f" in {precision}" if precision else ""}; add it under "operators", or a "default"'
            )
        return checked(terms.of(call), self.backend, described(call), self.name)

    def transfer(self, size: int, source: str, destination: str) -> Estimate:
        """Between the host and the device; the part of the other end of a longer path is another model's."""
        ends = [backend_of(source), backend_of(destination)]
        if self.backend not in ends or ends[0] == ends[1]:
            return Estimate(0.0, self.name)
        rate = self.table.download if ends[0] == self.backend else self.table.upload
        return Estimate(self.table.latency + size / rate, self.name)

    def launch(self, target: str) -> Estimate:
        return Estimate(self.table.launch, self.name)


class FunctionModel(CostModel):
    """The numbers of *backend* by a function of a unit and its place; a launch and a transfer as *table* has them."""

    def __init__(self, backend: str, function: CostFunction, table: Table | None = None):
        self.backend, self._function = backend, function
        self.name = f"function {getattr(function, '__name__', type(function).__name__)}"
        self._rest = TableModel(backend, table or Table(self.name, Prices()))

    def units(self, calls: Sequence[Call], target: str, precision: str = "") -> list[Estimate]:
        place = UnitPlace(target, precision_name(precision))
        return [self._unit(call, place) for call in calls]

    def _unit(self, call: Call, place: UnitPlace) -> Estimate:
        try:
            seconds = self._function(call, place)
        except Exception as error:  # whatever a vendor's code raises
            raise PartitionError(
                f"backend {self.backend!r}: its cost {self.name} failed on {described(call)}: {in_one_line(error)}"
            ) from error
        return checked(seconds, self.backend, described(call), self.name)

    def transfer(self, size: int, source: str, destination: str) -> Estimate:
        return self._rest.transfer(size, source, destination)

    def launch(self, target: str) -> Estimate:
        return self._rest.launch(target)


def _prices(data: object, where: str, source: str) -> Prices:
    given = _mapping(data, where.rstrip("."), source)
    if where:
        _only(given, ("operators", "default"), where.rstrip("."), source)
    operators = _mapping(given.get("operators", {}), f"{where}operators", source)
    default = given.get("default")
    return Prices(
        {str(name): _terms(entry, f"{where}operators.{name}", source) for name, entry in operators.items()},
        None if default is None else _terms(default, f"{where}default", source),
    )


def _terms(entry: object, where: str, source: str) -> CostTerms:
    if not isinstance(entry, Mapping):
        return CostTerms(_number(entry, where, source))
    _only(entry, _TERMS, where, source)
    if not entry:
        raise PartitionError(f"{source}: {where} is empty; give {', '.join(_TERMS)}, or seconds as a number")
    return CostTerms(*(_number(entry.get(term, 0.0), f"{where}.{term}", source) for term in _TERMS))


def _mapping(value: object, where: str, source: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise PartitionError(f"{source}: {where} must be an object, got {value!r}")
    return value


def _only(value: Mapping[str, object], names: Sequence[str], where: str, source: str) -> None:
    other = next((key for key in value if key not in names), None)
    if other is not None:
        raise PartitionError(f"{source}: {where} has no {other!r}; known: {', '.join(names)}")


def _number(value: object, where: str, source: str) -> float:
    number = float_of(value)
    if number is not None and math.isfinite(number) and number >= 0:
        return number
    raise PartitionError(f"{source}: {where} must be a finite number from 0, got {value!r}")


def _rate(transfer: Mapping[str, object], name: str, source: str) -> float:
    if name not in transfer:
        return math.inf
    rate = _number(transfer[name], f"transfer.{name}", source)
    if rate == 0:
        raise PartitionError(f"{source}: transfer.{name} must be above 0 bytes a second")
    return rate
