"""Tensor expressions of transposed convolutions in any layout: a product of matrices, then sums of what falls together.

Three stages. ``columns`` has for every element of the data and of the kernel their product, summed over the input
channels: one product of matrices without a wasted term. ``phases`` adds, for each output position, those that fall on
it: positions that are equal modulo the stride (a phase) read consecutive columns. The last stage puts the phases
together. An element outside of the data is left out instead of multiplied as zero, so that an infinite weight gives
an infinity or nothing, as in ONNX Runtime, and never the NaN of ``0 * inf``.

Where an output sees a single input channel (depthwise), columns save no multiplication and cost memory. There, if the
weights are known to be finite, the data is spread with zeros and convolved by the mirrored kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from byoc import te
from byoc.relay.op.core.window import kernel_letters
from byoc.relay.op.nn.convolution.compute import ByLetter, by_letter, load_at, meta_of
from byoc.relay.op.nn.convolution.geometry import Geometry
from byoc.te import Dimension, Index, PrimExpr, Tensor
from byoc.te.expr import INDEX

if TYPE_CHECKING:
    from byoc.relay.op.attributes.convolution import TransposedAttrs

# a spread copy multiplies as many zeros as the product of the strides: no more than these
MAX_SPREAD = 8
# of an intermediate stage: what an axis counts (N, C, the kernel's taps, data, positions of a phase, phases), and which
Part = tuple[str, str]
N, C = ("batch", "N"), ("channel", "C")


def transposed_stages(data: Tensor, weight: Tensor, attrs: TransposedAttrs, geometry: Geometry) -> Tensor:
    """A transposed convolution of *n* spatial axes; tag ``conv2d_transpose`` and so on."""
    spread = geometry.reduced == 1 and math.prod(geometry.strides) <= MAX_SPREAD and weight.is_finite
    return _convolved_spread(data, weight, attrs, geometry) if spread else _Columns(data, weight, attrs, geometry).run()


@dataclass(frozen=True)
class _Step:
    """One spatial axis: extents of data, kernel and result, and how they step along each other."""

    size: Dimension
    kernel: int
    stride: int
    dilation: int
    before: int
    result: Dimension

    @property
    def terms(self) -> int:
        """How many taps are tried for one output position: all, or without dilation every stride-th."""
        return self.kernel if self.dilation > 1 else -(-self.kernel // self.stride)

    @property
    def positions(self) -> Dimension:
        """The extent of a phase."""
        if self.stride == 1:
            return self.result
        return (self.result + self.before - 1) // self.stride - self.before // self.stride + 1

    def falls(self, position: PrimExpr, phase: PrimExpr, term: Index) -> tuple[PrimExpr, PrimExpr, list[PrimExpr]]:
        """The element of the data and the tap that fall on a position of a phase as its *term*, and if they do."""
        place = position + self.before // self.stride
        if self.dilation == 1:
            tap: PrimExpr = phase + term * self.stride
            element = place - term
            exists = [tap < self.kernel] if self.kernel % self.stride else []
        else:
            behind = phase - term * self.dilation
            tap, element = term, place + behind / self.stride
            exists = [(behind % self.stride).equal(0)] if self.stride > 1 else []
        return element, tap, [*exists, element >= 0, element < self.size]


class _Columns:
    def __init__(self, data: Tensor, weight: Tensor, attrs: TransposedAttrs, geometry: Geometry):
        self.data, self.weight, self.attrs, self.geometry = data, weight, attrs, geometry
        self.steps = _steps_of(geometry)
        channels_last = attrs.data_layout[-1] == "C"
        data_parts, taps = [("data", a) for a in self.steps], [("tap", a) for a in self.steps]
        self.columns = [N, *data_parts, *taps, C] if channels_last else [N, C, *taps, *data_parts]
        phases = [("phase", a) for a, step in self.steps.items() if step.stride > 1]
        positions = [("position", a) for a in self.steps]
        self.phases = [N, *phases, *positions, C] if channels_last else [N, C, *phases, *positions]

    def run(self) -> Tensor:
        """The result."""
        phases = self._phases(self._column_stage())
        layout = self.attrs.out_layout or self.attrs.data_layout
        name = f"conv{len(self.steps)}d_transpose"

        def element(*index: Index) -> PrimExpr:
            out = by_letter(layout, index)
            at: dict[Part, PrimExpr] = {N: out["N"], C: out["C"]}
            for a, step in self.steps.items():
                place = out[a] + step.before % step.stride
                at["position", a], at["phase", a] = place / step.stride, place % step.stride
            return phases(*(at[part] for part in self.phases))

        shape = te.shape_of(self.geometry.result(layout))
        return te.compute(shape, element, name=name, tag=name, meta=meta_of(self.attrs, self.geometry))

    def _column_stage(self) -> Tensor:
        geometry, axis = self.geometry, te.reduce_axis(te.dimension(self.geometry.reduced), "ic")
        per_group = te.dimension(geometry.out) // geometry.groups

        def element(*index: Index) -> PrimExpr:
            at = dict(zip(self.columns, index, strict=True))
            group = at[C] / per_group
            channel = axis if geometry.groups == 1 else group * te.dimension(geometry.reduced) + axis
            source = {"N": at[N], "C": channel, **{a: at["data", a] for a in self.steps}}
            taps = {"I": channel, "O": at[C] % per_group, **{a: at["tap", a] for a in self.steps}}
            left = load_at(self.data, self.attrs.data_layout, source)
            right = load_at(self.weight, self.attrs.kernel_layout, taps)
            return te.sum(te.cast(geometry.dtype, left) * te.cast(geometry.dtype, right), [axis])

        return te.compute([self._extent(part) for part in self.columns], element, name="columns", tag="matmul")

    def _phases(self, columns: Tensor) -> Tensor:
        axes = {a: te.reduce_axis(step.terms, f"k{a.lower()}") for a, step in self.steps.items()}

        def element(*index: Index) -> PrimExpr:
            at: dict[Part, PrimExpr] = dict(zip(self.phases, index, strict=True))
            conditions: list[PrimExpr] = []
            for a, step in self.steps.items():
                phase = at.get(("phase", a), te.const(0, INDEX))
                at["data", a], at["tap", a], falls = step.falls(at["position", a], phase, axes[a])
                conditions += falls
            value = columns(*(at[part] for part in self.columns))
            return te.sum(te.if_then_else(te.all_of(*conditions), value, te.const(0, value.dtype)), [*axes.values()])

        return te.compute([self._extent(part) for part in self.phases], element, name="phases", tag="pool")

    def _extent(self, part: Part) -> Dimension:
        kind, letter = part
        if part in (N, C):
            return te.dimension(self.geometry.batch) if part == N else te.dimension(self.geometry.out)
        step = self.steps[letter]
        return {"data": step.size, "tap": step.kernel, "phase": step.stride, "position": step.positions}[kind]


def _steps_of(geometry: Geometry) -> dict[str, _Step]:
    """The spatial axes by their letters."""
    axes = zip(
        geometry.sizes,
        geometry.kernel,
        geometry.strides,
        geometry.dilation,
        geometry.pads,
        geometry.out_sizes,
        strict=True,
    )
    steps = [_Step(te.dimension(size), k, s, d, pads[0], te.dimension(out)) for size, k, s, d, pads, out in axes]
    return dict(zip(kernel_letters(len(steps))[2:], steps, strict=True))


def _convolved_spread(data: Tensor, weight: Tensor, attrs: TransposedAttrs, geometry: Geometry) -> Tensor:
    """A sum over a copy of the data with zeros between its elements, against the mirrored kernel."""
    steps, layout = _steps_of(geometry), attrs.out_layout or attrs.data_layout
    source = _spread(data, attrs, geometry, steps)
    per_group = te.dimension(geometry.out) // geometry.groups
    channel_axis = te.reduce_axis(te.dimension(geometry.reduced), "ic")
    axes = {a: te.reduce_axis(step.kernel, f"k{a.lower()}") for a, step in steps.items()}

    def element(*index: Index) -> PrimExpr:
        out = by_letter(layout, index)
        channel: PrimExpr = channel_axis
        if geometry.groups > 1:
            channel = (out["C"] / per_group) * te.dimension(geometry.reduced) + channel_axis
        at: ByLetter = {a: out[a] + axes[a] * step.dilation for a, step in steps.items()}
        taps: ByLetter = {a: te.const(step.kernel - 1, INDEX) - axes[a] for a, step in steps.items()}
        left = load_at(source, attrs.data_layout, {**at, "N": out["N"], "C": channel})
        right = load_at(weight, attrs.kernel_layout, {**taps, "I": channel, "O": out["C"] % per_group})
        return te.sum(te.cast(geometry.dtype, left) * te.cast(geometry.dtype, right), [channel_axis, *axes.values()])

    name = f"conv{len(steps)}d_transpose"
    shape = te.shape_of(geometry.result(layout))
    return te.compute(shape, element, name=name, tag=name, meta=meta_of(attrs, geometry))


def _spread(data: Tensor, attrs: TransposedAttrs, geometry: Geometry, steps: dict[str, _Step]) -> Tensor:
    """*data* with ``stride - 1`` zeros between elements and room for every tap of the kernel around (tag ``pad``)."""
    reach = {a: (step.kernel - 1) * step.dilation for a, step in steps.items()}
    shape = [
        steps[letter].result + reach[letter] if letter in steps else size
        for letter, size in zip(attrs.data_layout, data.shape, strict=True)
    ]

    def element(*index: Index) -> PrimExpr:
        inner: list[PrimExpr] = []
        conditions: list[PrimExpr] = []
        for letter, i in zip(attrs.data_layout, index, strict=True):
            if letter not in steps:
                inner.append(i)
                continue
            step = steps[letter]
            place = i + (step.before - reach[letter])
            inner.append(place / step.stride)
            whole = [(place % step.stride).equal(0)] if step.stride > 1 else []
            conditions += [place >= 0, place < step.size * step.stride, *whole]
        return te.if_then_else(te.all_of(*conditions), data(*inner), te.const(0, data.dtype))

    return te.compute(shape, element, name="spread", tag="pad")
