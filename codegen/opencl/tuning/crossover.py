"""Where one schedule of a reduction becomes faster than the other, by measuring both on the device.

Each threshold is searched by halving powers of two: below it the serial schedule is taken to win, above it the tree (or
the other way round for numbers of outputs). Whichever the device is: on a processor barriers may cost more than a tree
saves, and the threshold is then NEVER.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.codegen.kernel.program import Group, Program
from byoc.codegen.opencl.tuning.device_batch import DeviceCandidate, DeviceTrialBatch, InputData
from byoc.codegen.opencl.tuning.trials import RunDeviceBatch
from byoc.codegen.tune.trial_batch import Timed
from byoc.codegen.tune.worker_process import WorkerProcess
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.opencl.launches import FunctionPlan
from byoc.te import Index, Size, Tensor, binary, placeholder
from byoc.te.expr import Reduce

NEVER = 1 << 30  # as byoc.codegen.opencl.device.thresholds has it
ROUNDS = 6
TREE = {"shortest_tree": 1, "enough_rows": NEVER, "long_reduction": 1, "few_outputs": NEVER}  # at any size
SERIAL = {"shortest_tree": NEVER, "long_reduction": NEVER}
EmitWith = Callable[[Program, Mapping[str, int]], tuple[str, FunctionPlan]]  # a program with such thresholds
Shapes = Callable[[int], Sequence[tuple[int, ...]]]
SMALLEST, LARGEST = 4, 14  # powers of two that are tried
OUTPUTS, LENGTH = 64, 1024  # of the other size, while one is searched


@dataclass(frozen=True)
class Point:
    """Seconds of both schedules of a reduction at one *size*; *name* is the threshold that it is about."""

    name: str
    size: int
    tree: float
    serial: float


@dataclass(frozen=True)
class Crossovers:
    """The thresholds that were found, the points that were measured for them, and why others were not found."""

    thresholds: Mapping[str, int] = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        return {"thresholds": dict(self.thresholds), "points": [vars(p) for p in self.points]}

    @staticmethod
    def from_json(data: object) -> Crossovers | None:
        """What :meth:`to_json` gave; None for anything else."""
        if not isinstance(data, dict) or not isinstance(data.get("thresholds"), dict):
            return None
        found, points = data["thresholds"], data.get("points")
        if not all(isinstance(v, int) and v >= 1 for v in found.values()) or not isinstance(points, list):
            return None
        try:
            return Crossovers(found, tuple(Point(**p) for p in points))
        except TypeError:
            return None


class _Search:
    def __init__(self, emit: EmitWith, run_batch: RunDeviceBatch, device: str):
        self.emit, self.run_batch, self.device = emit, run_batch, device
        self.points: list[Point] = []

    def first(self, name: str, program: Program, shapes: Shapes, tree_wins: bool) -> int | str:
        """The least size at which the tree wins (or the serial schedule); NEVER where it does not, or why not found.

        *shapes* are those of the inputs of *program* for a size.
        """
        compiled = tuple(DeviceCandidate(*self.emit(program, forced)) for forced in (TREE, SERIAL))
        low, high = SMALLEST, LARGEST + 1  # not at 1 << (low - 1), at 1 << high
        while low < high:
            middle = (low + high) // 2
            point = self._measure(name, 1 << middle, compiled, shapes(1 << middle))
            if isinstance(point, str):
                return point
            if (point.tree < point.serial) == tree_wins:
                high = middle
            else:
                low = middle + 1
        return NEVER if low > LARGEST else 1 << low

    def _measure(
        self, name: str, size: int, compiled: tuple[DeviceCandidate, ...], shapes: Sequence[tuple[int, ...]]
    ) -> Point | str:
        inputs = tuple(InputData(shape, "float32") for shape in shapes)
        tree, serial = self.run_batch(DeviceTrialBatch(compiled, inputs, ROUNDS, self.device))
        if not isinstance(tree, Timed) or not isinstance(serial, Timed):
            return next(o for o in (tree, serial) if isinstance(o, str))
        point = Point(name, size, tree.shortest, serial.shortest)
        self.points.append(point)
        return point


def measured_crossovers(emit: EmitWith, device: str) -> Crossovers:
    """The thresholds of *device* (as of ``DeviceTrialBatch``), whose kernels *emit* writes with given ones."""
    with WorkerProcess() as worker:
        return search_crossovers(emit, worker.run, device)


def search_crossovers(emit: EmitWith, run_batch: RunDeviceBatch, device: str = "") -> Crossovers:
    """The thresholds by what *run_batch* measures; kernels are made for any sizes, once."""
    search, rows, columns, product = _Search(emit, run_batch, device), _rows(), _columns(), _product()
    found: dict[str, int | str] = {
        "shortest_tree": search.first("shortest_tree", rows, lambda n: [(OUTPUTS, n)], tree_wins=True),
        "enough_rows": search.first("enough_rows", columns, lambda n: [(LENGTH // 4, n)], tree_wins=False),
        "long_reduction": search.first("long_reduction", product, lambda n: [(OUTPUTS, n), (n,)], tree_wins=True),
    }
    many = search.first("few_outputs", product, lambda n: [(n, LENGTH), (LENGTH,)], tree_wins=False)
    found["few_outputs"] = max(many - 1, 1) if isinstance(many, int) else many
    numbers = {name: value for name, value in found.items() if isinstance(value, int)}
    failures = {name: value for name, value in found.items() if isinstance(value, str)}
    return Crossovers(numbers, tuple(search.points), failures)


_OUTPUTS, _LENGTH = Size("outputs"), Size("length")


def _rows() -> Program:
    """Rows, each divided by its sum."""
    data = placeholder((_OUTPUTS, _LENGTH), "float32", "data")
    row, point = Index("row", _OUTPUTS), Index("point", _LENGTH)
    sums = Tensor("sums", (_OUTPUTS,), "float32", (row,), Reduce("sum", data[row, point], (point,)))
    i, k = Index("i", _OUTPUTS), Index("k", _LENGTH)
    return _program([data], sums, Tensor("shares", data.shape, "float32", (i, k), binary("div", data[i, k], sums[i])))


def _columns() -> Program:
    """Columns, which neighbours read side by side, each divided by its sum."""
    data = placeholder((_LENGTH, _OUTPUTS), "float32", "data")
    row, point = Index("row", _OUTPUTS), Index("point", _LENGTH)
    sums = Tensor("sums", (_OUTPUTS,), "float32", (row,), Reduce("sum", data[point, row], (point,)))
    k, i = Index("k", _LENGTH), Index("i", _OUTPUTS)
    return _program([data], sums, Tensor("shares", data.shape, "float32", (k, i), binary("div", data[k, i], sums[i])))


def _product() -> Program:
    """A matrix by a vector."""
    data, vector = placeholder((_OUTPUTS, _LENGTH), "float32", "data"), placeholder((_LENGTH,), "float32", "vector")
    row, point = Index("row", _OUTPUTS), Index("point", _LENGTH)
    total = Reduce("sum", binary("mul", data[row, point], vector[point]), (point,))
    return _program([data, vector], Tensor("sums", (_OUTPUTS,), "float32", (row,), total))


def _program(inputs: list[Tensor], *stages: Tensor) -> Program:
    def spec(tensor: Tensor) -> TensorSpec:
        dims = tuple(d.name if isinstance(d, Size) else int(str(d)) for d in tensor.shape)
        return TensorSpec(tensor.name, dims, tensor.dtype)

    signature = Signature("reduction", tuple(map(spec, inputs)), (spec(stages[-1]),))
    return Program("reduction", signature, tuple(inputs), (), stages[-1:], (Group("kernel", (), stages, "kernel"),))
