"""Emitted C as people read it, kept as files: ``pytest --update-golden`` writes them anew."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.c.compiler import find_compiler
from byoc.codegen.c.emit import emit_programs
from byoc.codegen.c.machine import Machine
from byoc.codegen.kernel.lower import lower_function
from byoc.errors import CompileError
from byoc.ir.span import Span
from byoc.ir.types import Any, TensorType
from byoc.relay.expr import Function, const, var

AVX512 = Machine(64, 24)


def _primitive(body, params):
    return Function(params, body, attrs={"Primitive": 1})


def _convolution():
    x = var("data", TensorType((Any("batch"), 3, 10, 20)))
    weight, bias = const(np.ones((4, 3, 3, 3), "float32")), const(np.ones((4, 1, 1), "float32"))
    conv = relay.nn.conv2d(x, weight, padding=(1, 1), channels=4, kernel_size=(3, 3))
    body = relay.maximum(relay.add(conv, bias), const(0.0))
    for node, name in ((conv, "Conv_0"), (body.args[0], "Add_1"), (body, 'Relu_2 */ int injected; /*')):
        node.span = Span.named(name)
    return _primitive(body, [x])


def _elementwise():
    x, y = var("x", TensorType((4, 5))), var("y", TensorType((5,)))
    return _primitive(relay.tanh(relay.multiply(relay.add(x, y), const(0.5))), [x, y])


CASES = {"c/convolution.c": _convolution, "c/elementwise.c": _elementwise}


@pytest.mark.parametrize("name", CASES)
def test_emitted_c_is_what_was_read_and_approved(name, golden):
    golden(name, emit_programs([lower_function(CASES[name](), "kernel_0")], AVX512))


@pytest.mark.needs_cc
@pytest.mark.parametrize("name", CASES)
def test_approved_c_compiles_without_a_warning(name):
    source = emit_programs([lower_function(CASES[name](), "kernel_0")], AVX512)
    assert find_compiler().build(source, ("-Wall", "-Wextra", "-Wpedantic", "-Werror"))


def test_a_name_of_the_model_cannot_end_a_comment():
    source = emit_programs([lower_function(_convolution(), "kernel_0")], AVX512)
    assert "Relu_2 * / int injected; / *" in source and "Relu_2 */" not in source


@pytest.mark.parametrize("symbol", ["9lives", "a-b", "int", "x; int y", ""])
def test_a_symbol_that_is_no_c_name_is_refused(symbol):
    with pytest.raises(CompileError, match="cannot be the name of a C function"):
        emit_programs([lower_function(_elementwise(), symbol)], AVX512)
