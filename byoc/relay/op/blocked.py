"""Blocked layouts (``NCHW16c``) for every operator that has layouts among its attributes.

Such a call means what the operator means on tensors brought to the layout without blocks, its result brought back: the
type relation, the inference of untyped inputs and the tensor expression are wrapped so, here, in one place; the numpy
kernels are in ``runtime/kernels/nn/blocked.py``. Calls without blocks are not touched. ``byoc.relay.op`` wraps the
operators that have the trait ``takes_blocks`` when they are registered. Source: ``tvm.tir.Layout`` as Relay's type
relations use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from byoc import te
from byoc.errors import TypeInferenceError, UserError
from byoc.ir.attrs import Attrs
from byoc.ir.layout import BijectiveLayout, Layout
from byoc.ir.op import ComputeOf, Op, RelationOf, TensorCompute, TypeRule
from byoc.ir.types import Any, Dim, TensorType, Type
from byoc.runtime.kernels.movement.layouts import layout_attributes, parse_layout, whole_layout
from byoc.te import Tensor


@dataclass(frozen=True)
class _Blocks:
    """The layouts of one call: of its inputs and its result as given, and the attributes without blocks."""

    inputs: tuple[str, ...]
    result: str
    attrs: Attrs

    @staticmethod
    def of(attrs: Attrs) -> _Blocks | None:
        """The layouts of a call with these *attrs*; None where no block is among them."""
        names, results = layout_attributes(attrs.__dataclass_fields__)
        given = {key: str(attrs[key]) for key in (*names, *results)}
        if not any(c.islower() for layout in given.values() for c in layout):
            return None
        try:
            whole = {key: whole_layout(layout) for key, layout in given.items()}
        except UserError as error:
            raise TypeInferenceError(str(error)) from error
        result = next((given[key] for key in results if given[key]), "")
        return _Blocks(tuple(given[key] for key in names), result, replace(attrs, **whole))


def _in_layout(ty: Type, src: str, dst: str) -> TensorType:
    """The type of a tensor in layout *src* after it is brought to *dst*."""
    source, target = Layout(src), Layout(dst)
    if not isinstance(ty, TensorType) or ty.ndim != len(source):
        raise TypeInferenceError(f"{ty} is no tensor in layout {src}")
    for size, axis in zip(ty.shape, source.parts, strict=True):
        if axis.block and not isinstance(size, Any) and size != axis.block:
            raise TypeInferenceError(f"{ty} does not have the blocks of {src}")
    for letter, size in zip(source.primal, _whole_shape(ty, source), strict=True):
        if not isinstance(size, Any) and size % max(target.factor_of(letter), 1):
            raise TypeInferenceError(f"{size} along {letter} is no multiple of its block in {dst}")
    return TensorType(BijectiveLayout(source, target).forward_shape(ty.shape), ty.dtype)


def _whole_shape(ty: TensorType, source: Layout) -> tuple[Dim, ...]:
    return BijectiveLayout(source, Layout("".join(source.primal))).forward_shape(ty.shape)


def _wrap_relation(rel: TypeRule) -> RelationOf[Attrs]:
    def relation(types: Sequence[Type], attrs: Attrs) -> Type:
        blocks = _Blocks.of(attrs)
        if blocks is None:
            return rel(types, attrs)
        whole = [_in_layout(ty, src, whole_layout(src)) for ty, src in zip(types, blocks.inputs, strict=False)]
        result = rel([*whole, *types[len(whole) :]], blocks.attrs)
        return _in_layout(result, whole_layout(blocks.result), blocks.result)

    return relation


def _wrap_inference(rule: Callable[..., Sequence[Type | None]]) -> Callable[..., Sequence[Type | None]]:
    def infer(types: Sequence[Type | None], out: Type | None, attrs: Attrs) -> Sequence[Type | None]:
        blocks = _Blocks.of(attrs)
        if blocks is None:
            return rule(types, out, attrs)
        layouts = list(blocks.inputs)
        whole = [
            None if ty is None else _in_layout(ty, src, whole_layout(src))
            for ty, src in zip(types, layouts, strict=False)
        ]
        found = rule([*whole, *types[len(whole) :]], None, blocks.attrs)
        back = [
            None if ty is None else _in_layout(ty, whole_layout(dst), dst)
            for ty, dst in zip(found, layouts, strict=False)
        ]
        return [*back, *found[len(back) :]]

    return infer


def _staged(data: Tensor, src: str, dst: str) -> Tensor:
    from byoc.relay.op.movement.rearrange import transform_stage

    if src == dst:
        return data
    ty = TensorType([Any(d.name) if isinstance(d, te.Size) else int(d) for d in data.shape], data.dtype)
    return transform_stage(data, parse_layout(src), parse_layout(dst), te.shape_of(_in_layout(ty, src, dst)))


def _wrap_compute(compute: ComputeOf[Attrs, Tensor, TensorType]) -> ComputeOf[Attrs, Tensor, TensorType]:
    def blocked(attrs: Attrs, inputs: Sequence[Tensor], out_type: TensorType) -> Sequence[Tensor]:
        blocks = _Blocks.of(attrs)
        if blocks is None:
            return compute(attrs, inputs, out_type)
        whole = [_staged(x, src, whole_layout(src)) for x, src in zip(inputs, blocks.inputs, strict=False)]
        plain = whole_layout(blocks.result)
        result = compute(blocks.attrs, [*whole, *inputs[len(whole) :]], _in_layout(out_type, blocks.result, plain))
        return [_staged(result[0], plain, blocks.result)]

    return blocked


def allow_blocks(op: Op) -> None:
    """Let *op* take blocked layouts."""
    assert op.rel is not None
    op.rel = cast(TypeRule, _wrap_relation(op.rel))
    if op.infer_inputs is not None:
        op.infer_inputs = _wrap_inference(op.infer_inputs)
    if op.compute is not None:
        op.compute = cast("TensorCompute", _wrap_compute(cast("ComputeOf[Attrs, Tensor, TensorType]", op.compute)))
