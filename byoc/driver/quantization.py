"""int8 for a model in float32: ranges from samples of its inputs, the host's share rewritten, the error measured.

The share that stays on the host after the cut is what is quantized. Samples run through it in float32, compiled with
the values between operators as further outputs (regions of other backends as host code), and each such value is counted
in a histogram. Without samples dense products are quantized by ranges found when the model runs. A model that has
quantized numbers already was quantized by its author: without samples it is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from byoc.errors import UserError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.span import span_names
from byoc.ir.types import tensor_types
from byoc.relay.analysis.operator_calls import op_name
from byoc.relay.expr import Call, Function, Tuple, Var
from byoc.relay.qnn.passes import QuantizedProducts
from byoc.relay.qnn.quantize import METHODS, Histogram, Left, StaticQuantizer, choose_range, quantize_dynamic
from byoc.relay.qnn.quantize.products import FIRST, LAST, NOT_FINITE
from byoc.relay.qnn.quantize.ranges import PERCENTILE
from byoc.relay.transform import InferType, InlineCalls
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.traverse import post_order, rewrite
from byoc.runtime.library import Library

Sample = Mapping[str, np.ndarray]
Key = tuple[str, tuple[str, ...]]
CompileHost = Callable[[IRModule], Library]
REPORT = "quantization"  # its key in the report of a library
COMPARED = 16  # samples whose outputs are kept, to measure the error
BYTES = frozenset(["int8", "uint8"])


@dataclass(frozen=True)
class Calibration:
    """How int8 finds the ranges of what products read, and fp16 what leaves its range.

    *samples* are inputs by name, a mapping each, iterated once; None finds ranges when the model runs. *method* is one
    of ``minmax``, ``percentile`` (which keeps *percentile* per cent of the values), ``mse``, ``entropy``. *keep_first*
    and *keep_last* leave the first and the last product in float32. *max_error* is how large the difference from the
    float32 outputs may be, relative to these, in the Euclidean norm over the first 16 samples.
    """

    samples: Iterable[Sample] | None = None
    method: str = "minmax"
    percentile: float = PERCENTILE
    keep_first: bool = False
    keep_last: bool = False
    max_error: float | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UserError(f"calibration: the method is one of {', '.join(METHODS)}, got {self.method!r}")
        if not 50.0 < self.percentile <= 100.0:
            raise UserError(f"calibration: percentile is above 50 and at most 100, got {self.percentile:g}")
        if self.max_error is not None and not self.max_error > 0.0:
            raise UserError(f"calibration: max_error is above 0, got {self.max_error:g}")
        if self.max_error is not None and self.samples is None:
            raise UserError("calibration: max_error is measured on samples; give samples")

    @staticmethod
    def of(given: Calibration | Iterable[Sample] | None) -> Calibration:
        """A calibration from samples alone, or *given* itself. Raises UserError for what is neither."""
        if isinstance(given, Calibration):
            return given
        if isinstance(given, Mapping):
            raise UserError(
                "calibration: give an iterable of samples, each a mapping from input names to arrays; "
                "got one mapping: write calibration=[sample]"
            )
        if given is not None and not isinstance(given, Iterable):
            raise UserError(f"calibration: expected samples or a byoc.Calibration, got {type(given).__name__}")
        return Calibration(given)

    @property
    def ends(self) -> dict[int, Left]:
        """The places among all products, from the front or the back, that are kept."""
        return {**({0: FIRST} if self.keep_first else {}), **({-1: LAST} if self.keep_last else {})}


@dataclass
class HostQuantization:
    """The quantization of one model.

    *reasons* lists for each product that was left, by its operator and nodes, why, in their order; *summary* is for the
    report, *errors* are what the compiled library loses on samples, by output.
    """

    calibration: Calibration
    keep: Sequence[str]
    reasons: list[tuple[Key, Left]] = field(default_factory=list)
    summary: dict[str, object] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)
    precision: ClassVar[str] = "int8"
    _compared: list[tuple[Sample, list[np.ndarray]]] = field(default_factory=list)

    def quantized(self, mod: IRModule, compile_host: CompileHost) -> IRModule:
        """The partitioned *mod* with main on bytes where it can be; *compile_host* compiles a module in float32.

        Raises UserError for samples that do not fit the inputs, and where there is none.
        """
        mod = InferType()(mod)
        main = mod["main"]
        assert isinstance(main, Function)
        if self.calibration.samples is None:
            if quantizes_itself(main):
                self.summary = {"ranges": "the model's own"}
                return mod
            func, reasons = quantize_dynamic(main, self.keep)
            self.summary = {"ranges": "found when it runs, for each row"}
        else:
            func, reasons = self._static(mod, main, compile_host)
        self.reasons = [((op_name(c) or "", span_names(c.span)), why) for c, why in reasons.items()]
        made = mod.shallow_copy()
        made["main"] = func
        return QuantizedProducts()(InferType()(made))

    def _static(self, mod: IRModule, main: Function, compile_host: CompileHost) -> tuple[Function, dict[Call, Left]]:
        quantizer = StaticQuantizer(main, self.keep, self.calibration.ends)
        seen = self._observe(mod, main, quantizer.sources, compile_host)
        for source, histogram in seen.items():
            if not histogram.is_finite:
                quantizer.leave(source, NOT_FINITE)
        how = self.calibration
        ranges = {s: choose_range(seen[s], how.method, how.percentile) for s in quantizer.sources}
        rows = [range_row(s, a.scale, a.zero_point, "uint8", seen[s]) for s, a in ranges.items()]
        self.summary.update({"method": how.method, "ranges": rows})
        return quantizer.rewritten(ranges), quantizer.reasons

    def _observe(
        self, mod: IRModule, main: Function, sources: Sequence[RelayExpr], compile_host: CompileHost
    ) -> dict[RelayExpr, Histogram]:
        """The histogram of each of *sources* over all samples."""
        inputs = [s for s in sources if isinstance(s, Var)]
        made = [s for s in sources if not isinstance(s, Var)]
        library = compile_host(_probe(mod, main, made))
        seen = {source: Histogram() for source in sources}
        outputs = len(tensor_types(main.body.checked_type))
        count = 0
        for count, sample in enumerate(self.calibration.samples or (), 1):
            if not isinstance(sample, Mapping):
                raise UserError(
                    f"calibration: sample {count - 1} is a {type(sample).__name__}, expected a mapping "
                    "from the names of the inputs to arrays"
                )
            values = library.run(sample)
            for source, value in zip(made, values[outputs:], strict=True):
                seen[source].update(value)
            for var in inputs:
                seen[var].update(np.asarray(sample[var.name_hint]))
            if count <= COMPARED:
                self._compared.append(({k: np.array(v) for k, v in sample.items()}, values[:outputs]))
        if not count:
            raise UserError("calibration: there are no samples; give at least one, or none for ranges at run time")
        self.summary["samples"] = count
        return seen

    def check(self, library: Library) -> None:
        """Measure the error of the compiled *library* on samples, and put all that is known into its report.

        Raises UserError where an output's error is above ``max_error``.
        """
        if self._compared and not library.problems():
            self.summary["errors"] = self.errors = errors = self._errors(library)
            most = self.calibration.max_error
            name = max(errors, key=lambda n: errors[n], default="")
            if most is not None and name and not errors[name] <= most:
                raise UserError(
                    f"{self.precision} changes output {name} by {errors[name]:.3g} of its size on the samples, more "
                    f"than max_error={most:g}: keep products in f32 (keep_f32, keep_first, keep_last), choose another "
                    "method, or allow more"
                )
        left = [{"operator": op, "nodes": list(nodes), "code": why.code} for (op, nodes), why in self.reasons]
        library.report[REPORT] = {**self.summary, "left": left}

    def _errors(self, library: Library) -> dict[str, float]:
        """The Euclidean norm of the difference over that of the float32 output, by output, over the kept samples."""
        lost, whole = np.zeros(len(library.outputs)), np.zeros(len(library.outputs))
        for sample, expected in self._compared:
            for k, (found, want) in enumerate(zip(library.run(sample), expected, strict=True)):
                wide = np.asarray(want, np.float64)
                lost[k] += np.square(np.asarray(found, np.float64) - wide).sum()
                whole[k] += np.square(wide).sum()
        ratio = np.sqrt(lost / np.where(whole > 0.0, whole, 1.0))
        return {spec.name: float(e) for spec, e in zip(library.outputs, ratio, strict=True)}


def range_row(source: RelayExpr, scale: float, zero_point: int, dtype: str, seen: Histogram) -> dict[str, object]:
    """What the report says of a tensor: its range on the samples, what stands for it, and what rounding changes.

    ``error`` is the Euclidean norm of the difference over that of the values.
    """
    nodes = [source.name_hint] if isinstance(source, Var) else list(span_names(source.span))
    values, counts = seen.bins()
    limits = np.iinfo(dtype)
    kept = np.clip(np.rint(values / scale) + zero_point, limits.min, limits.max)
    whole = float(counts @ np.square(values))
    lost = float(counts @ np.square(values - (kept - zero_point) * scale))
    return {
        "nodes": nodes,
        "scale": scale,
        "zero_point": zero_point,
        "dtype": dtype,
        "low": seen.low,
        "high": seen.high,
        "error": float(np.sqrt(lost / whole)) if whole else 0.0,
    }


def quantizes_itself(main: Function) -> bool:
    """Whether an operator of *main* makes bytes."""
    calls = (n for n in post_order(main.body, fusion_children) if isinstance(n, Call))
    return any(t.dtype in BYTES for n in calls for t in tensor_types(n.checked_type))


def _probe(mod: IRModule, main: Function, sources: Sequence[RelayExpr]) -> IRModule:
    """A module of host code that computes the outputs of *main* and then *sources*; regions are inlined."""

    def opened(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if isinstance(after, Function) and after.attrs:
            return Function(after.params, after.body, after.declared_ret_type, after.type_params, None, after.span)
        return after

    def called(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if not (isinstance(after, Call) and isinstance(after.op, GlobalVar)):
            return after
        return Call(rewrite(mod[after.op], opened), after.args, span=after.span)

    body = rewrite(Tuple([main.body, *sources]), called)
    return InferType()(InlineCalls()(InferType()(IRModule.from_expr(Function(main.params, body)))))
