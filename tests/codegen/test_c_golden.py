"""Emitted C as people read it, kept as files: ``pytest --update-golden`` writes them anew."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.codegen.c.emit import emit_programs
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.kernel.lower import lower_function
from byoc.errors import CompileError
from byoc.ir.span import Span
from byoc.ir.types import Any, TensorType
from byoc.relay.expr import Function, const, var

pytestmark = pytest.mark.optimized

AVX512 = Machine(64, 24)


def _primitive(body, params):
    return Function(params, body, attrs={"Primitive": 1})


def _convolution():
    x = var("data", TensorType((Any("batch"), 3, 10, 20)))
    weight, bias = const(np.ones((4, 3, 3, 3), "float32")), const(np.ones((4, 1, 1), "float32"))
    conv = relay.nn.conv2d(x, weight, padding=(1, 1), channels=4, kernel_size=(3, 3))
    body = relay.maximum(relay.add(conv, bias), const(0.0))
    for node, name in ((conv, "Conv_0"), (body.args[0], "Add_1"), (body, "Relu_2 */ int injected; /*")):
        node.span = Span.named(name)
    return _primitive(body, [x])


def _elementwise():
    x, y = var("x", TensorType((4, 5))), var("y", TensorType((5,)))
    return _primitive(relay.tanh(relay.multiply(relay.add(x, y), const(0.5))), [x, y])


def _float(name, *shape):
    return var(name, TensorType(shape))


def _kinds():
    """One small operator of each kind, as the host compiles it: with its operands packed."""
    x, image, rows = _float("x", 3, 16), _float("image", 1, 4, 5, 8), _float("rows", 3, 40)
    places = var("places", TensorType((3,), "int64"))
    q, k, v = (_float(n, 2, 3, 8) for n in "qkv")
    scores = relay.nn.softmax(relay.nn.batch_matmul(q, k, transpose_b=True))
    layout = {"data_layout": "NHWC", "kernel_layout": "HWIO", "kernel_size": (3, 3), "padding": (1, 1)}

    def ones(*shape):
        return const(np.ones(shape, "float32"))

    return {
        "product.c": ([x], relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, ones(8, 16)), ones(8)))),
        "convolution_packed.c": (
            [image],
            relay.nn.conv2d(image, ones(3, 3, 8, 8), channels=8, strides=(2, 2), **layout),
        ),
        "depthwise.c": (
            [image],
            relay.nn.conv2d(image, ones(3, 3, 8, 1), channels=8, groups=8, **{**layout, "kernel_layout": "HWOI"}),
        ),
        "pool.c": ([image], relay.nn.max_pool2d(image, (2, 2), (2, 2), layout="NHWC")),
        "mean.c": ([image], relay.mean(image, axis=(1, 2))),
        "softmax.c": ([rows], relay.nn.softmax(rows)),
        "layer_norm.c": ([rows], relay.nn.layer_norm(rows, ones(40), ones(40))),
        "attention.c": ([q, k, v], relay.nn.batch_matmul(scores, v, transpose_b=False)),
        "transpose.c": ([image], relay.transpose(image, (0, 3, 1, 2))),
        "embedding.c": ([rows, places], relay.take(rows, places, axis=0)),
        "concatenate.c": ([rows], relay.concatenate([rows, relay.negative(rows)], axis=1)),
        "argmax.c": ([rows], relay.argmax(rows, axis=1)),
    }


AVX = Machine(32, 12, 16)
CASES = {"c/convolution.c": _convolution, "c/elementwise.c": _elementwise}
KINDS = {f"c/{name}": made for name, made in _kinds().items()}


def _source(name):
    if name in CASES:
        return emit_programs([lower_function(CASES[name](), "kernel_0")], AVX512)
    params, body = KINDS[name]
    return emit_programs([prepare(lower_function(_primitive(body, params), "kernel_0"), AVX)], AVX)


@pytest.mark.parametrize("name", [*CASES, *KINDS])
def test_emitted_c_is_what_was_read_and_approved(name, golden):
    golden(name, _source(name))


@pytest.mark.needs_cc
@pytest.mark.parametrize("name", [*CASES, *KINDS])
def test_approved_c_compiles_without_a_warning(name):
    # it is for AVX-512 or AVX, which this machine may lack; discarding const is a warning of GCC without a flag
    assert find_compiler().build(
        _source(name), ("-Wall", "-Wextra", "-Wpedantic", "-Wcast-qual", "-Werror", "-Wno-psabi")
    )


def test_a_name_of_the_model_cannot_end_a_comment():
    source = emit_programs([lower_function(_convolution(), "kernel_0")], AVX512)
    assert "Relu_2 * / int injected; / *" in source and "Relu_2 */" not in source


@pytest.mark.parametrize("symbol", ["9lives", "a-b", "int", "x; int y", ""])
def test_a_symbol_that_is_no_c_name_is_refused(symbol):
    with pytest.raises(CompileError, match="cannot be the name of a C function|is a reserved word: C or"):
        emit_programs([lower_function(_elementwise(), symbol)], AVX512)
