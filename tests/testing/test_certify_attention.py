"""Patterns of plain products: certification finds graphs of them beside constraints on what stands inside."""

import pathlib

import pytest

from byoc.contract.importing import import_backend
from byoc.contract.verdict import Reason, sentence_of
from byoc.testing import certify

pytestmark = pytest.mark.needs_cc
SOURCE = """
import numpy as np
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import PatternEntry, constraint, constraints as C, register_backend
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.runtime.json import KernelTable

TABLE = KernelTable("NAME")

@TABLE.kernel("NAME.attention")
def attention(q, k, v):
    s = q @ k
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ v

@constraint("transposed", of="nn.batch_matmul")
def plain(call):
    "products of rows and columns as they are"
    return "transposed" if call.attrs.transpose_a or call.attrs.transpose_b else None

@constraint("axis", of="nn.softmax")
def rows(call):
    "softmax along the last axis"
    return None if call.attrs.axis in (-1, call.checked_type.ndim - 1) else call.attrs.axis

@register_backend
class Attention(JsonBackend):
    "attention, whole"
    name = table = "NAME"
    constraints = (C.operators("NAME.attention"), C.dtypes("float32"), plain, rows)
    def patterns(self):
        scores = is_op("nn.batch_matmul")(wildcard(), wildcard())
        return [PatternEntry("NAME.attention", is_op("nn.batch_matmul")(is_op("nn.softmax")(scores), wildcard()))]
"""


def registered(tmp_path: pathlib.Path, name: str, text: str = SOURCE) -> str:
    (tmp_path / f"{name}.py").write_text(text.replace("NAME", name))
    import_backend(str(tmp_path / f"{name}.py"))
    return name


def test_a_pattern_of_plain_products_is_tried(tmp_path, of_this_test):
    found = certify(registered(tmp_path, "attention_chip"), saved=False)
    assert found.ok and found.covered == ("attention_chip.attention",) and not found.untried, str(found)


@pytest.mark.slow
def test_a_mistake_in_such_a_pattern_is_found(tmp_path, of_this_test):
    text = SOURCE.replace("s = q @ k", "s = (q @ k) * np.float32(0.5)")
    found = certify(registered(tmp_path, "attention_wrong", text), saved=False)
    assert {c.operator for c in found.failures} == {"attention_wrong.attention"}


@pytest.mark.slow
def test_what_no_sample_forms_says_that_a_model_tries_it(tmp_path, of_this_test):
    text = SOURCE.replace('"transposed" if call.attrs.transpose_a or call.attrs.transpose_b else None', "'any'")
    found = certify(registered(tmp_path, "attention_never", text), saved=False)
    (why,) = found.untried.values()
    assert "got any" in why and why.endswith("; a model that has it tries it: --model FILE")


def test_a_pattern_and_a_reason_are_named_once():
    reasons = [
        Reason("operator", "only acme.pair", "exp"),
        Reason("dtype", "float32 only", "float16", "nn.dense, node a", "acme.pair"),
        Reason("dtype", "float32 only", "float16", "nn.relu, node b", "acme.pair"),
        Reason("size", "small", "", "", "acme.pair"),
    ]
    assert sentence_of(reasons) == (
        "only acme.pair, got exp; acme.pair matched here but was refused: float32 only, got float16 "
        "(nn.dense, node a and nn.relu, node b); small"
    )
    assert sentence_of([]) == ""
