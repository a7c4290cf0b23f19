"""What only moves elements: another descriptor of the same memory where there is one, else a copy."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.contrib.onednn.building import DST, MANY_SRC, QUERY_DST, Builder, DnnlValue
from byoc.contrib.onednn.steps import DnnlStep, builds
from byoc.runtime.kernels.movement.transform import VIEWS


@builds(*VIEWS, "copy")
def reshape(builder: Builder, step: DnnlStep, data: DnnlValue) -> DnnlValue:
    """The same elements under another shape."""
    return builder.reshaped(data, step.shape)


@builds("transpose", "layout_transform")
def transpose(builder: Builder, step: DnnlStep, data: DnnlValue) -> DnnlValue:
    """The same elements with their axes in another order."""
    ndim = len(data.shape)
    if step.operator == "layout_transform":
        return data.permuted([step["src_layout"].index(axis) for axis in step["dst_layout"]])
    axes = step.get("axes", None)
    return data.permuted([int(a) % ndim for a in axes] if axes else list(reversed(range(ndim))))


@builds("cast")
def cast(builder: Builder, step: DnnlStep, data: DnnlValue) -> DnnlValue:
    """Floats of another width."""
    if step.dtypes[0] == data.dtype:
        return data
    return builder.to(data, builder.library.desc(data.shape, step.dtypes[0]))


@builds("concatenate")
def concatenate(builder: Builder, step: DnnlStep, *parts: DnnlValue) -> DnnlValue:
    """Tensors behind one another along an axis."""
    library, axis = builder.library, int(step["axis"]) % len(step.shape)
    whole = [part for part in parts if 0 not in part.shape]
    if len(whole) == 1:
        return whole[0]
    attributes, target = library.attributes().finished(), builder.any_of(whole[0].desc, step.shape)
    descs = [part.desc.pointer for part in whole]
    primitive = library.primitive("concat", library.engine, target, len(descs), axis, descs, attributes)
    result = builder.temporary(primitive.asked(QUERY_DST, 0, step.shape, whole[0].dtype))
    builder.add(primitive, {**{MANY_SRC + k: part for k, part in enumerate(whole)}, DST: result})
    return result


def _part(builder: Builder, data: DnnlValue, shape: Sequence[int], offsets: Sequence[int]) -> DnnlValue:
    """The part of *data* of *shape* that begins at *offsets*."""
    desc = data.desc.part(shape, offsets)
    if desc is None:
        data = builder.in_order(data)
        desc = data.desc.part(shape, offsets)
        assert desc is not None, (data.shape, shape, offsets)
    return DnnlValue(desc, data.buffer)


@builds("strided_slice")
def strided_slice(builder: Builder, step: DnnlStep, data: DnnlValue) -> DnnlValue:
    """A part that leaves nothing out."""
    return _part(builder, data, step.shape, step.slice_begins(data.shape))


@builds("split")
def split(builder: Builder, step: DnnlStep, data: DnnlValue) -> list[DnnlValue]:
    """Parts behind one another along an axis."""
    axis, begin, parts = int(step["axis"]) % len(data.shape), 0, []
    for shape in step.shapes:
        offsets = [begin if k == axis else 0 for k in range(len(shape))]
        empty = 0 in shape
        parts.append(builder.plain(shape, data.dtype) if empty else _part(builder, data, shape, offsets))
        begin += shape[axis]
    return parts


@builds("nn.pad")
def pad(builder: Builder, step: DnnlStep, data: DnnlValue, value: DnnlValue) -> DnnlValue:
    """Zeros around."""
    result = builder.plain(step.shape, data.dtype)
    builder.add(None, {DST: result})
    begins = [int(before) for before, _ in step["pad_width"]]
    if 0 not in data.shape:
        builder.reorder(data, _part(builder, result, data.shape, begins))
    return result
