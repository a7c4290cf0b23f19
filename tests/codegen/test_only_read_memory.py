"""What is only read: inputs and constants of a program are filled by no stage, and their arrays refuse a write."""

import dataclasses

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.c.backend import compile_functions
from byoc.codegen.kernel.lower import lower_function
from byoc.codegen.opencl.backend import compile_functions as compile_opencl
from byoc.errors import InternalError
from byoc.ir.types import TensorType
from byoc.relay.op.attributes.recurrent import RNNSequenceAttrs


def number_that_is_shared():
    """A constant of one element that is an output, and is read by another stage too."""
    x, number = relay.var("x", TensorType((4,))), relay.const(np.array([2.5], "float32"))
    return relay.Function([x], relay.Tuple([number, relay.add(x, number)]), attrs={"Primitive": 1})


def recurrence_of_one_unit():
    """A recurrence whose weights and first state are constants of one element."""
    x, one = relay.var("x", TensorType((3, 1, 1))), np.full((1, 1), 0.5, "float32")
    body = relay.nn.rnn_sequence([x, relay.const(one), relay.const(one)], RNNSequenceAttrs())[0]
    return relay.Function([x], body)


@pytest.mark.parametrize("function", [number_that_is_shared, recurrence_of_one_unit])
def test_a_constant_of_one_element_that_is_a_stage_is_no_constant_of_the_program(function):
    program = lower_function(function(), "f")
    assert any(s.name == "number" for g in program.groups for s in g.stages)
    assert program.constants == () and program.signature.constants == ()


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.parametrize("compile_all", [compile_functions, compile_opencl])
def test_a_number_that_is_an_output_and_read_has_its_value_in_both(compile_all):
    module = compile_all({"f": number_that_is_shared()})
    number, total = np.empty(1, "float32"), np.empty(4, "float32")
    module["f"](np.arange(4, dtype="float32"), number, total)
    np.testing.assert_array_equal(number, [2.5])
    np.testing.assert_array_equal(total, [2.5, 3.5, 4.5, 5.5])


def test_a_program_refuses_a_stage_that_fills_a_constant_or_an_input():
    x, weights = relay.var("x", TensorType((4,))), relay.const(np.ones(4, "float32"))
    program = lower_function(relay.Function([x], relay.add(x, weights)), "f")
    ((constant, data),) = program.constants
    stage = program.groups[0].stages[0]
    for wrong in ({"constants": ((stage, data),)}, {"inputs": (stage,)}, {"groups": program.groups * 2}):
        with pytest.raises(InternalError, match="fills an input, a constant or a stage's memory"):
            dataclasses.replace(program, **wrong)
    assert constant not in program.groups[0].stages
