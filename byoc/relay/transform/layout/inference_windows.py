"""Layout rules of operators that carry layouts as attributes, and of quantized ones.

Convolutions say what they want and others follow; pools, upsamplings and resizes take what they get. Source: the
``FInferCorrectLayout`` of ``src/relay/op/nn/{convolution,pooling,upsampling}.cc``, ``src/relay/op/image``,
``src/relay/qnn/op``.
"""

from __future__ import annotations

from dataclasses import replace

from byoc.ir.attrs import as_int
from byoc.ir.layout import Layout
from byoc.relay.transform.layout.inference import CHANNELS, CorrectLayouts, LayoutCase, LayoutRule


def _text(case: LayoutCase, name: str) -> str:
    return str(case.attrs[name])


def convolution(*inputs: str) -> LayoutRule:
    """The layouts that the attributes *inputs* name; further inputs are vectors. Source: ``ConvInferCorrectLayout``."""

    def rule(case: LayoutCase) -> CorrectLayouts:
        wanted = tuple(Layout(_text(case, name)) for name in inputs)
        out = _text(case, "out_layout") if "out_layout" in case.attrs.keys() else ""
        result = Layout(out or _text(case, "data_layout"))
        return CorrectLayouts((*wanted, *(CHANNELS,) * (len(case.old) - len(wanted))), (result,), case.attrs)

    return rule


def pool(case: LayoutCase) -> CorrectLayouts:
    """What comes in, unless an output layout is asked for. Source: ``PoolInferCorrectLayout``."""
    attrs = case.attrs
    if case.new is not None and not _text(case, "out_layout"):
        attrs = replace(attrs, layout=case.new[0].name)
    layout = Layout(str(attrs["layout"]))
    return CorrectLayouts((layout,), (Layout(_text(case, "out_layout") or layout.name),), attrs)


def quantized_pool(case: LayoutCase) -> CorrectLayouts:
    """A pool whose further inputs are scales and zero points. Source: ``QnnAvgPoolInferCorrectLayout``."""
    found = pool(case)
    return CorrectLayouts((*found.inputs, *(CHANNELS,) * (len(case.old) - 1)), found.outputs, found.attrs)


def _keeps_spatial_axes(old: Layout, new: Layout) -> bool:
    """True when height and width stand where they stood, unsplit."""
    spatial = [axis for axis in old if axis in "DHW"]
    return all(new.index_of(a) == old.index_of(a) and a.lower() not in new for a in spatial)


def upsampling(case: LayoutCase) -> CorrectLayouts:
    """What comes in, where the spatial axes stay in their places; else its own. Source: ``upsampling.cc``."""
    own, attrs = Layout(_text(case, "layout")), case.attrs
    if case.new is not None and _keeps_spatial_axes(own, case.new[0]):
        own = case.new[0]
        attrs = replace(attrs, layout=own.name)
    return CorrectLayouts((own, *(CHANNELS,) * (len(case.old) - 1)), (own,), attrs)


def resize(case: LayoutCase) -> CorrectLayouts:
    """What comes in, of as many axes, where its own layout was that of its input. Source: ``image/resize.cc``."""
    own, attrs = Layout(_text(case, "layout")), case.attrs
    if case.new is not None and own == case.old[0] and len(case.new[0]) == len(own):
        own = case.new[0]
        attrs = replace(attrs, layout=own.name)
    return CorrectLayouts((own, *(CHANNELS,) * (len(case.old) - 1)), (own,), attrs)


def own_layout(case: LayoutCase) -> CorrectLayouts:
    """All inputs and the result in the layout of the attribute. Source: ``CorrelationInferCorrectLayout``."""
    own = Layout(_text(case, "layout"))
    return CorrectLayouts((own,) * len(case.old), (own,), case.attrs)


def regions(case: LayoutCase) -> CorrectLayouts:
    """Its own layout for the data, rows of numbers for the regions. Source: ``roi_align.cc``."""
    own = Layout(_text(case, "layout"))
    return CorrectLayouts((own, Layout("NC")), (own,), case.attrs)


def dense(case: LayoutCase) -> CorrectLayouts | None:
    """Matrices. Source: ``DenseInferCorrectLayout``."""
    rest = (CHANNELS,) * (len(case.old) - 2)
    return CorrectLayouts((Layout("NC"), Layout("NC"), *rest), (Layout("NC"),), case.attrs) if case.ndim == 2 else None


def packed_dense(case: LayoutCase) -> CorrectLayouts:
    """A matrix by a packed one. Source: ``DensePackInferCorrectLayout``."""
    return CorrectLayouts((Layout("NC"), Layout(_text(case, "weight_layout"))), (Layout("NC"),), case.attrs)


def transformed(case: LayoutCase) -> CorrectLayouts:
    """A layout transform says both. Source: ``LayoutTransformInferCorrectLayout``."""
    return CorrectLayouts((Layout(_text(case, "src_layout")),), (Layout(_text(case, "dst_layout")),), case.attrs)


def quantization(case: LayoutCase) -> CorrectLayouts | None:
    """Scales along one axis by name; a split one is put together. Source: ``RequantizeInferCorrectLayout``."""
    old, data, attrs = case.old[0], case.data, case.attrs
    if not data.defined:
        return None
    if case.new is not None:
        axis = as_int(attrs["axis"]) % case.ndim
        data = Layout("".join(data.primal))
        attrs = replace(attrs, axis=data.index_of(old[axis]))
    return CorrectLayouts((data, *(CHANNELS,) * (len(case.old) - 1)), (data,), attrs)
