"""Rules of means: over windows by ``qnn.avg_pool2d``, over whole axes in int32.

Source: ``avgpool2d``, ``adaptive_avgpool1d``, ``global_avgpool2d`` and ``mean`` of ``fake_quantization_to_integer.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.errors import UserError
from byoc.ir.affine_type import TensorAffineType
from byoc.ir.op import register_op_attr
from byoc.relay import op as relay
from byoc.relay import qnn
from byoc.relay.expr import Call, Constant
from byoc.relay.narrowing import operator_of
from byoc.relay.op.op import register_fake_quantization_to_integer as register
from byoc.relay.qnn.fake.parameters import fold_constant, held_in, is_per_axis
from byoc.relay.qnn.fake.rewriting import TRUNCATES, TypeMap

Result = Sequence[object]


def _one_scale(expr: Call, type_map: TypeMap) -> TensorAffineType:
    ty = type_map[expr.args[0]]
    assert isinstance(ty, TensorAffineType)
    if is_per_axis(ty):
        raise UserError(f"the data of {operator_of(expr).name} must have one scale and one zero point")
    return ty


def _is_finer(ty: TensorAffineType, other: TensorAffineType) -> bool:
    """True for constant scales of which that of *ty* is smaller."""
    scales = [fold_constant(t.scale) for t in (ty, other)]
    numbers = [s.data.numpy() for s in scales if isinstance(s, Constant) and s.data.numpy().size == 1]
    return len(numbers) == 2 and bool(numbers[0].reshape(()) < numbers[1].reshape(()))


@register("nn.avg_pool2d")
def avgpool2d(expr: Call, type_map: TypeMap) -> Result:
    """``qnn.avg_pool2d`` in the units of its data, which hold every mean; in those asked for where these are finer."""
    ty, asked = _one_scale(expr, type_map), type_map.get(expr)
    out_t = held_in(asked, ty.dtype) if isinstance(asked, TensorAffineType) and _is_finer(asked, ty) else ty
    out = qnn.op.avg_pool2d(
        expr.args[0],
        ty.scale,
        ty.zero_point,
        out_t.scale,
        out_t.zero_point,
        **expr.attrs,
    )
    return [out, out_t]


def register_integer_mean(op_name: str, op: Callable[..., Call]) -> object:
    """Say that operator *op_name* takes means over axes: of the integers, in int32."""

    def mean(expr: Call, type_map: TypeMap) -> Result:
        ty = _one_scale(expr, type_map)
        out = op(relay.cast(expr.args[0], "int32"), **expr.attrs)
        return [relay.cast(out, ty.dtype), ty]

    register_op_attr(op_name, TRUNCATES, True)
    return register(op_name, mean)


register_integer_mean("mean", relay.mean)
register_integer_mean("nn.global_avg_pool2d", relay.nn.global_avg_pool2d)
register_integer_mean("nn.adaptive_avg_pool1d", relay.nn.adaptive_avg_pool1d)
