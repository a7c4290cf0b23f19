"""Where lists of operators disagreed by accident, what the operator is decides."""

import numpy as np
import pytest

from byoc import relay
from byoc.ir.op import OPS
from byoc.ir.traits import Conversion
from byoc.partition.costs.work import WorkKind, work_of
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.qnn.narrow_integers import shifted
from byoc.relay.transform.mixed_precision import DEFAULT_FOLLOW_LIST, DEFAULT_NEVER_LIST
from byoc.relay.transform.scales.fold_constant_scales import fold_scales
from byoc.relay.traverse import post_order


def typed(expr: relay.Expr) -> relay.Expr:
    infer_expr(expr)
    return expr


@pytest.mark.parametrize("name", ["nn.batch_flatten", "contrib_reverse_reshape"])
def test_every_view_of_one_tensor_shares_its_storage(name: str) -> None:
    assert OPS[name].get_attr("TReshapeOp")


@pytest.mark.parametrize("name", ["nn.mirror_pad", "ones", "zeros_like", "reverse_sequence", "slice_like"])
def test_whatever_moves_or_fills_follows_mixed_precision(name: str) -> None:
    assert name in DEFAULT_FOLLOW_LIST


def test_running_products_are_no_more_halved_than_running_sums() -> None:
    assert {"cumsum", "cumprod"} <= set(DEFAULT_NEVER_LIST)
    assert OPS["cumprod"].traits.precision is Conversion.NEVER


@pytest.mark.parametrize(
    "move",
    [
        lambda x: relay.strided_slice(x, [0, 1], [2, 3]),
        lambda x: relay.reverse(x, 1),
        lambda x: relay.tile(x, (2, 1)),
        relay.copy,
    ],
)
def test_a_zero_point_is_carried_past_every_move(move) -> None:
    x = relay.var("x", shape=(2, 4), dtype="uint8")
    found = shifted(typed(move(relay.subtract(relay.cast(x, "int32"), relay.const(7)))))
    assert found is not None and found.zero is not None and found.data.checked_type.dtype == "uint8"


@pytest.mark.parametrize("function", [relay.nn.relu, relay.nn.leaky_relu, relay.abs, relay.negative])
def test_a_constant_scale_passes_every_function_that_keeps_scales(function) -> None:
    x = relay.var("x", shape=(2, 4))
    dense = relay.nn.dense(x, relay.const(np.ones((3, 4), "float32")))
    folded = fold_scales(relay.Function([x], relay.multiply(function(dense), relay.const(np.float32(2.0)))))
    assert not any(isinstance(n, relay.Call) and n.op.name == "multiply" for n in post_order(folded))


@pytest.mark.parametrize("name, like", [("trunc_divide", "floor_divide"), ("trunc_mod", "floor_mod")])
def test_divisions_cost_alike(name: str, like: str) -> None:
    assert OPS[name].traits.costly == OPS[like].traits.costly


def test_a_quantized_transposed_convolution_is_priced_as_a_product() -> None:
    x, w = relay.var("x", shape=(1, 8, 6, 6), dtype="int8"), relay.const(np.ones((8, 4, 3, 3), "int8"))
    one, zero = relay.const(np.float32(1.0)), relay.const(np.int32(0))
    call = relay.qnn.op.conv2d_transpose(x, w, zero, zero, one, one, kernel_size=(3, 3), channels=4, out_dtype="int32")
    assert work_of(typed(call)).kind is WorkKind.PRODUCT
