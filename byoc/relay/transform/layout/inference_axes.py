"""Layout rules of operators that name axes: joins, cuts, reductions, permutations, paddings, norms.

Where an axis that the operator names is split into blocks, the rule follows it if that is exact (a reduction takes both
parts, a slice at multiples of the block is a slice of blocks) and else answers None. Source: the
``FInferCorrectLayout`` of ``src/relay/op/tensor/{transform,reduce}.cc`` and ``src/relay/op/nn/nn.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from byoc.ir.attrs import Attrs, as_int
from byoc.ir.layout import Layout
from byoc.ir.types import Any, TensorType, TupleType, tensor_types
from byoc.relay.narrowing import as_tensor_type
from byoc.relay.transform.layout.inference import (
    CHANNELS,
    SCALAR,
    UNDEFINED,
    CorrectLayouts,
    LayoutCase,
    field_count,
)
from byoc.runtime.kernels.movement.layouts import NamedAxis


def _with_axis(attrs: Attrs, axis: object, name: str = "axis") -> Attrs:
    return replace(attrs, **{name: axis})


def _axis(case: LayoutCase) -> int:
    return as_int(case.attrs["axis"]) % case.ndim


def _joined(case: LayoutCase, count: int) -> CorrectLayouts | None:
    """*count* tensors along an axis, further inputs being scales and zero points."""
    types = tensor_types(case.types[0]) if isinstance(case.types[0], TupleType) else ()
    axis, rest = _axis(case), (CHANNELS,) * (len(case.old) - count)
    if case.new is None:
        layout = next((x for x in case.old[:count] if x.defined), None)
        if layout is None or len(layout) <= axis or layout.parts[axis].block:
            return None
        return CorrectLayouts((layout,) * count + rest, (layout,), case.attrs)
    old, new = case.old[0], case.new[0]
    factor, sizes = max(new.factor_of(old[axis]), 1), [ty.shape[axis] for ty in types]
    cut = factor > 1 and any(isinstance(size, Any) or size % factor for size in sizes)
    if cut or any(layout != new for layout in case.new[:count]):
        return CorrectLayouts((old,) * count + rest, (old,), case.attrs)
    attrs = _with_axis(case.attrs, new.index_of(old[axis]))
    return CorrectLayouts((new,) * count + rest, (new,), attrs)


def concatenate(case: LayoutCase) -> CorrectLayouts | None:
    """All tensors as the first is, unless blocks do not divide them. Source: ``ConcatenateLayout``."""
    return _joined(case, field_count(case.types[0]))


def split(case: LayoutCase) -> CorrectLayouts | None:
    """The parts in the layout of the whole; cuts inside a block are none. Source: ``SplitInferCorrectLayout``."""
    axis, attrs = _axis(case), case.attrs
    cuts = attrs["indices_or_sections"]
    count = cuts if isinstance(cuts, int) else len(cuts) + 1
    if case.new is None or not case.old[0].defined:
        return CorrectLayouts((case.data,), (case.data,) * count, attrs)
    old, new = case.old[0], case.new[0]
    factor, size = max(new.factor_of(old[axis]), 1), case.tensor(0).shape[axis]
    inside = [as_int(size) // cuts] if isinstance(cuts, int) else list(cuts)
    if factor > 1 and any(c % factor for c in inside):
        return CorrectLayouts((old,), (old,) * count, attrs)
    changed: dict[str, object] = {"axis": new.index_of(old[axis])}
    if factor > 1 and not isinstance(cuts, int):
        changed["indices_or_sections"] = tuple(c // factor for c in inside)
    return CorrectLayouts((new,), (new,) * count, replace(attrs, **changed))


def reduce(case: LayoutCase) -> CorrectLayouts | None:
    """The same axes by name, both parts of a split one. Source: ``ReduceInferCorrectLayout``."""
    from byoc.relay.op.numeric.reduce import reduced_axes

    old, data, attrs = case.old[0], case.data, case.attrs
    if not old.defined or len(old) != case.ndim:
        return None
    gone = {old[a] for a in reduced_axes(attrs, case.ndim)}
    if any(axis.islower() for axis in gone):
        return None
    axes, kept = [], []
    for place, part in enumerate(data.parts):
        if (part.letter in gone) != bool(attrs["exclude"]):
            axes.append(place)
        if part.letter not in gone:
            kept.append(part)
        elif attrs["keepdims"]:
            kept.append(NamedAxis(part.letter, 1 if part.block else 0))
    if case.new is not None:
        attrs = _with_axis(attrs, tuple(axes))
    result = Layout.of_axes(kept) if kept else UNDEFINED  # as in Relay, where the empty word is no layout
    return CorrectLayouts((data,) * len(case.old), (result,), attrs)


def argument_reduce(case: LayoutCase) -> CorrectLayouts | None:
    """A reduction to positions, which are counted along the reduced axes in their order: that must stay as it was."""
    from byoc.relay.op.numeric.reduce import reduced_axes

    found = reduce(case)
    if found is None or case.new is None:
        return found
    new = found.inputs[0]
    counted = [new.parts[a] for a in reduced_axes(found.attrs, len(new))]
    before = [case.old[0][a] for a in reduced_axes(case.attrs, case.ndim)]
    # a block right behind its axis counts as the axis did
    whole = [p for k, p in enumerate(counted) if not (p.block and k and counted[k - 1].letter == p.letter)]
    return found if not any(p.block for p in whole) and [p.letter for p in whole] == before else None


def transpose(case: LayoutCase) -> CorrectLayouts | None:
    """The permutation that gives the same result. Source: ``TransposeInferCorrectLayout``."""
    old, attrs = case.old[0], case.attrs
    if not old.defined or len(old) != case.ndim:
        return None
    axes = attrs["axes"]
    places = [a % case.ndim for a in axes] if axes else list(reversed(range(case.ndim)))
    result = Layout.of_axes([old.parts[a] for a in places])
    if case.new is None:
        return CorrectLayouts((old,), (result,), attrs)
    moved = [case.moved(a) for a in places]
    if None in moved or len(case.data) != len(old):
        return None
    return CorrectLayouts((case.data,), (result,), _with_axis(attrs, tuple(moved), "axes"))


def squeeze(case: LayoutCase) -> CorrectLayouts | None:
    """The same axes dropped by name; none of them may be split. Source: ``SqueezeInferCorrectLayout``."""
    attrs, ty = case.attrs, case.types[0]
    if not case.old[0].defined or len(case.old[0]) != case.ndim:
        return None
    given = attrs["axis"]
    dropped = [a for a, d in enumerate(as_tensor_type(ty).shape) if d == 1] if given is None else list(given)
    places = [case.moved(a) for a in dropped]
    if None in places:
        return None
    kept = Layout.of_axes([part for k, part in enumerate(case.data.parts) if k not in places])
    if case.new is not None:
        attrs = _with_axis(attrs, tuple(places))
    return CorrectLayouts((case.data,), (kept,), attrs)


def pad(case: LayoutCase) -> CorrectLayouts | None:
    """The widths by name; a split axis must not be padded. Source: ``PadInferCorrectLayout``."""
    old, attrs = case.old[0], case.attrs
    rest = (SCALAR,) * (len(case.old) - 1)
    if not old.defined or len(old) != case.ndim:
        return None
    if case.new is None:
        return CorrectLayouts((old, *rest), (old,), attrs)
    widths = dict(zip(old, attrs["pad_width"], strict=True))
    split_axes = [part.letter for part in case.data.parts if part.block and part.letter not in old.name.lower()]
    if old.is_blocked or any(any(widths[letter]) for letter in split_axes):
        return CorrectLayouts((old, *rest), (old,), attrs)
    new = tuple((0, 0) if part.block else widths[part.letter] for part in case.data.parts)
    return CorrectLayouts((case.data, *rest), (case.data,), _with_axis(attrs, new, "pad_width"))


def moved_axis(case: LayoutCase) -> CorrectLayouts | None:
    """One axis by name, such as softmax's; it must not be split."""
    place = case.moved(_axis(case))
    return None if place is None else case.same(attrs=_with_axis(case.attrs, place))


def moved_axes(case: LayoutCase) -> CorrectLayouts | None:
    """Several axes by name, such as l2_normalize's; none must be split."""
    places = [case.moved(a % case.ndim) for a in case.attrs["axis"]]
    return None if None in places else case.same(attrs=_with_axis(case.attrs, tuple(places)))


def normalization(case: LayoutCase) -> CorrectLayouts | None:
    """A norm with vectors along its axis, and the batch first. Source: ``NormalizationInferCorrectLayout``."""
    axis = _axis(case)
    place = case.moved(axis)
    if place is None or case.moved(0) != 0:
        return None
    vector = Layout(case.old[0][axis])
    attrs = _with_axis(case.attrs, place)
    return CorrectLayouts((case.data, *(vector,) * (len(case.old) - 1)), (case.data,), attrs)


def layer_norm(case: LayoutCase) -> CorrectLayouts | None:
    """A norm along one axis, wherever the others are."""
    axis = _axis(case)
    place = case.moved(axis)
    if place is None:
        return None
    vector = Layout(case.old[0][axis])
    return CorrectLayouts((case.data, vector, vector), (case.data,), _with_axis(case.attrs, place))


def batch_norm(case: LayoutCase) -> CorrectLayouts | None:
    """Five inputs and three results, all but the first vectors. Source: ``BatchNormInferCorrectLayout``."""
    place = case.moved(_axis(case))
    if place is None:
        return None
    return case.with_channels(case.data, CHANNELS, CHANNELS, attrs=_with_axis(case.attrs, place))


def bias_add(case: LayoutCase) -> CorrectLayouts | None:
    """A vector along one axis; it must not be split."""
    place = case.moved(_axis(case))
    return None if place is None else case.with_channels(attrs=_with_axis(case.attrs, place))


def prelu(case: LayoutCase) -> CorrectLayouts | None:
    """Stays as it is. Source: ``PReluInferCorrectLayout``."""
    return CorrectLayouts((case.old[0], CHANNELS), (case.old[0],), case.attrs)


def take(case: LayoutCase) -> CorrectLayouts | None:
    """One axis by name, by a scalar (the axis goes) or a vector. Source: ``TakeInferCorrectLayout``."""
    given, indices = case.attrs["axis"], case.types[1]
    if given is None or not isinstance(indices, TensorType) or indices.ndim > 1:
        return None
    place = case.moved(int(given) % case.ndim)
    if place is None:
        return None
    parts = [p for k, p in enumerate(case.data.parts) if k != place or indices.ndim == 1]
    index_layout = case.old[1] if case.old[1].defined else SCALAR
    attrs = _with_axis(case.attrs, place)
    return CorrectLayouts((case.data, index_layout), (Layout.of_axes(parts),), attrs)


def strided_slice(case: LayoutCase) -> CorrectLayouts | None:
    """The sliced axes by name; one of a split axis in whole blocks. Source: ``StridedSliceInferCorrectLayout``.

    Without ``axes`` a permutation writes out all axes: a begin that is not given is 0, an end the size, a stride 1.
    """
    old, new, attrs = case.old[0], case.data, case.attrs
    if not old.defined or old.is_blocked or len(old) != case.ndim:
        return None
    if case.new is None or new == old:
        return CorrectLayouts((new,), (new,), attrs)
    if new.is_blocked:
        changed = _slice_of_blocks(case) if new.primal == list(old) else None
    elif attrs["axes"] is not None:
        changed = {"axes": tuple(new.index_of(old[a]) for a in attrs["axes"])}
    else:
        changed = _permuted_slice(case)
    return None if changed is None else CorrectLayouts((new,), (new,), replace(attrs, **changed))


def _slice_of_blocks(case: LayoutCase) -> dict[str, object] | None:
    """The attributes of a slice where blocks stand behind the old axes; None where a block is cut or skipped."""
    old, new, attrs = case.old[0], case.data, case.attrs
    axes = attrs["axes"]
    begin, end = list(attrs["begin"]), list(attrs["end"])
    strides: Sequence[int] = attrs["strides"]
    for k in range(max(len(begin), len(end))):
        factor = new.factor_of(old[k if axes is None else axes[k]])
        if factor < 0:
            continue
        for numbers in (begin, end):
            if k < len(numbers):
                if numbers[k] % factor:
                    return None
                numbers[k] //= factor
        if k < len(strides) and strides[k] != 1:
            return None
    return {"begin": tuple(begin), "end": tuple(end)}


def _permuted_slice(case: LayoutCase) -> dict[str, object] | None:
    from byoc.relay.op.core.slice_sizes import END

    old, new, attrs, shape = case.old[0], case.data, case.attrs, case.tensor(0).shape
    if sorted(old) != sorted(new):
        return None
    whole = -1 if attrs["slice_mode"] == "size" else END
    defaults = {
        "begin": [0] * len(old),
        "end": [whole if isinstance(d, Any) else d for d in shape],
        "strides": [1] * len(old),
    }
    changed: dict[str, object] = {}
    for name, missing in defaults.items():
        given = list(attrs[name])
        filled = [*given, *missing[len(given) :]]
        changed[name] = tuple(filled[old.index_of(letter)] for letter in new)
    return changed


def slice_like(case: LayoutCase) -> CorrectLayouts | None:
    """Both inputs in one layout, the axes by name; as they were where they come in two. Source: ``slice_like``."""
    old, attrs = case.old[0], case.attrs
    axes = attrs["axes"]
    if not old.defined or len(old) != case.ndim or case.tensor(1).ndim != case.ndim:
        return None
    if case.new is None or case.new[0] != case.new[1]:
        return CorrectLayouts((old, old), (old,), attrs)
    new = case.new[0]
    if axes:
        places = tuple(new.index_of(old[a]) for a in axes)
        attrs = _with_axis(attrs, places, "axes")
    return CorrectLayouts((new, new), (new,), attrs)


def topk(case: LayoutCase) -> CorrectLayouts | None:
    """Along one axis by name, which is not split; all results in the layout. Source: ``TopKInferCorrectLayout``."""
    found = moved_axis(case)
    if found is None or found.attrs["ret_type"] != "both":
        return found
    return CorrectLayouts(found.inputs, found.outputs * 2, found.attrs)
