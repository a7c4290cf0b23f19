"""int8 for targets that declare what integers they take: what they compute is quantized by samples before the cut.

The simplified model runs on the samples in float32; every value that a target's operators read or make is counted, and
gets a scale and a zero point in the form that the target declares (``Backend.quantized``). Quantize and dequantize
calls then stand around these operators, each value having one of each, and what lies between becomes integers
(``integers.py``). What the plan leaves on the host is quantized afterwards, as always (``quantization.py``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from byoc.contract.backend import Backend
from byoc.contract.quantized import Quantized
from byoc.driver.compiler.target_integers import exact_operators, integer_backends, with_integers
from byoc.driver.pipeline import at_least_level_3
from byoc.driver.quantization import Calibration, CompileHost, HostQuantization, Key, quantizes_itself, range_row
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.ir.span import span_names
from byoc.relay.analysis.operator_calls import op_name
from byoc.relay.expr import Function
from byoc.relay.qnn.quantize import Left, RegionQuantizer, choose_range, quantization_of
from byoc.relay.qnn.quantize.products import NOT_FINITE
from byoc.relay.transform import InferType
from byoc.runtime.library import Library


class TargetQuantization(HostQuantization):
    """The quantization of what *backends* take of one model."""

    def __init__(self, calibration: Calibration, keep: Sequence[str], backends: Sequence[Backend]):
        super().__init__(calibration, keep)
        self.backends = [b for b in backends if b.quantized is not None]

    def applies(self, mod: IRModule) -> bool:
        """Whether there is such a backend, and *mod* is not quantized by its author.

        Raises UserError where a backend needs samples and none are given.
        """
        main = mod["main"]
        assert isinstance(main, Function)
        if not self.backends or quantizes_itself(main):
            return False
        if self.calibration.samples is None:
            names = ", ".join(b.name for b in self.backends)
            raise UserError(
                f"precision int8: {names} computes on integers whose ranges must be known when compiling; give samples "
                "of the model's inputs as calibration (--calibrate)"
            )
        return True

    def quantized(self, mod: IRModule, compile_host: CompileHost) -> IRModule:
        """The simplified *mod* with what the backends take as integers; *compile_host* compiles a module in float32.

        Raises UserError for samples that do not fit the inputs, and where there is none.
        """
        # each share reads the samples
        self.calibration = dataclasses.replace(self.calibration, samples=tuple(self.calibration.samples or ()))
        mod = InferType()(mod)
        main = mod["main"]
        assert isinstance(main, Function)
        quantizer = RegionQuantizer(main, self._forms(), self.keep, self.calibration.ends)
        while True:
            self._compared.clear()
            seen = self._observe(mod, main, quantizer.sources, compile_host)
            lost = [source for source, histogram in seen.items() if not histogram.is_finite]
            if not lost:
                break
            for source in lost:  # what is left without them may read other values
                quantizer.leave(source, NOT_FINITE)
        how = self.calibration
        ranges = {s: choose_range(seen[s], how.method, how.percentile) for s in quantizer.sources}
        rows = []
        for source, affine in ranges.items():
            form = quantizer.form_of(source)
            assert isinstance(form, Quantized)
            scale, zero = quantization_of(affine, form)
            rows.append(range_row(source, scale, zero, form.data, seen[source]))
        self.summary.update({"method": how.method, "targets": [b.name for b in self.backends], "ranges": rows})
        left: dict[Key, Left] = {(op_name(c) or "", span_names(c.span)): why for c, why in quantizer.reasons.items()}
        self.reasons = list(left.items())
        made = mod.shallow_copy()
        made["main"] = quantizer.rewritten(ranges)
        with at_least_level_3():
            return with_integers(InferType()(made), self.backends)

    def _forms(self) -> list[Quantized]:
        """What the backends declare, with the operators where they name none."""
        declared = [b.quantized for b in self.backends if b.quantized is not None]
        every = tuple(exact_operators())
        return [q if q.operators else dataclasses.replace(q, operators=every) for q in declared]

    def check(self, library: Library) -> None:
        """Put what is known into the report of *library*, beside what was done for the host.

        Raises UserError where an output's error is above ``max_error``.
        """
        host = library.report.pop("quantization", None)
        super().check(library)
        if isinstance(host, dict):
            mine = library.report["quantization"]
            assert isinstance(mine, dict)
            library.report["quantization"] = {**mine, "host": {k: v for k, v in host.items() if k != "errors"}}


def target_quantization(
    calibration: Calibration | None, keep: Sequence[str], targets: Sequence[str]
) -> TargetQuantization:
    """The quantization for those of *targets* that declare integers."""
    return TargetQuantization(calibration or Calibration(), keep, integer_backends(targets))
