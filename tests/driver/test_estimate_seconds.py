"""Costs that Collage measures on this machine."""

import math

import pytest

from byoc.annex.collage import CostEstimator
from byoc.annex.collage.estimate_seconds import argument_for, estimate_seconds
from byoc.annex.devices.compilation_config import make_compilation_config
from byoc.errors import UserError
from byoc.ir.passes.transform import PassContext
from byoc.ir.target import Target
from byoc.ir.types import TensorType, TupleType
from byoc.relay import assert_structural_equal, fromtext
from byoc.relay.transform import CollagePartition, InferType

MATMUL = """#[version = "0.0.5"]
def @main(%x: Tensor[({0}, 256), float32], %w: Tensor[(256, 256), float32]) {{ nn.dense(%x, %w) }}"""


@pytest.mark.needs_cc
def test_more_work_takes_longer():
    target = Target("llvm")
    small, large = (estimate_seconds(fromtext(MATMUL.format(rows)), target) for rows in (1, 512))
    assert 0 < small * 4 < large < 10


def test_what_nobody_compiles_costs_infinitely_much():
    mod = fromtext("""#[version = "0.0.5"]
    def @f(%x: Tensor[(2), float32], Primitive=1, Compiler="nobody", global_symbol="f") -> Tensor[(2), float32] {
      abs(%x)
    }
    def @main(%x: Tensor[(2), float32]) -> Tensor[(2), float32] { @f(%x) }""")
    assert math.isinf(estimate_seconds(mod, Target("llvm")))


def test_arguments_are_tensors_of_the_type_asked_for():
    ints = argument_for(TensorType((2, 3), "int8")).numpy()
    assert ints.shape == (2, 3) and ints.dtype == "int8" and set(ints.ravel()) <= {0, 1}
    with pytest.raises(UserError, match="is a tensor"):
        argument_for(TupleType(()))


@pytest.mark.needs_cc
def test_collage_measures_where_no_estimator_is_given():
    mod = InferType()(fromtext(MATMUL.format(4)))
    config = make_compilation_config(PassContext(), "llvm")
    assert_structural_equal(CollagePartition(config)(mod), mod)
    assert_structural_equal(CollagePartition(config, CostEstimator())(mod), mod)
