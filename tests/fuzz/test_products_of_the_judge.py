"""The judge knows every ONNX operator whose numbers a lower precision may round."""

from __future__ import annotations

import onnx.helper
import pytest
from onnx import ModelProto, TensorProto
from onnx.backend.test.case.node import collect_testcases

from byoc.driver.narrow_products import is_product
from byoc.errors import UserError
from byoc.relay.expr import Call
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.transform import InferType
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.traverse import post_order
from fuzz.disturbance import PRODUCTS

EXAMPLES = 4  # of an operator: not each reads floats and has known sizes


def makes_products(model: ModelProto) -> bool:
    """Whether something of *model* becomes a product that a lower precision takes; not where it is refused."""
    try:
        mod = InferType()(import_onnx(model))
    except UserError:
        return False
    calls = [n for func in mod.functions.values() for n in post_order(func.body, fusion_children)]
    return any(isinstance(call, Call) and is_product(call) for call in calls)


def fused(name: str) -> ModelProto:
    """A product of the domain com.microsoft."""
    floats = [onnx.helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 4]) for n in "abc"]
    node = onnx.helper.make_node(name, ["a", "b"], ["c"], domain="com.microsoft")
    opsets = [onnx.helper.make_opsetid("", 19), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(
        onnx.helper.make_graph([node], "g", floats[:2], floats[2:]), opset_imports=opsets, ir_version=9
    )


@pytest.mark.parametrize("name", ["FusedMatMul", "TransposeMatMul"])
def test_products_that_another_optimiser_wrote_are_known(name):
    assert makes_products(fused(name)) and name in PRODUCTS


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the examples, whose numbers overflow
def test_every_operator_of_onnx_that_becomes_a_product_is_known():
    models: dict[str, list[ModelProto]] = {}
    for case in collect_testcases(None):
        if case.model is not None and len(case.model.graph.node) == 1:
            models.setdefault(case.model.graph.node[0].op_type, []).append(case.model)
    found = {name for name, examples in models.items() if any(map(makes_products, examples[:EXAMPLES]))}
    assert len(found) > 7 and found <= PRODUCTS, found - PRODUCTS
