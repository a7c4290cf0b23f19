"""A backend that computes in float16 alone is tried on float16: its operators, layouts and patterns."""

import pytest

from byoc.codegen.json.backend import JsonBackend
from byoc.contract import BACKENDS, PatternEntry, callee_name, constraint, register_backend
from byoc.contract.constraints import dtypes, layouts
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.testing.all_cases import all_cases
from byoc.testing.cases.operators import BackendAnswers


@constraint("operator")
def few(call):
    """convolutions, relu, and a sum behind a relu"""
    name = callee_name(call)
    return None if name in ("nn.conv2d", "nn.relu", "halves.add_relu") else name


@pytest.fixture
def backend():
    @register_backend
    class Halves(JsonBackend):
        """Halves, channels innermost."""

        name = "halves"
        constraints = (few, dtypes("float16"), layouts(data="NHWC", kernel="HWIO"))

        def patterns(self):
            return [PatternEntry("halves.add_relu", is_op("nn.relu")(is_op("add")(wildcard(), wildcard())))]

    yield Halves()
    for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
        registry.unregister("halves")
    GLOBAL_FUNCTIONS.unregister("relay.ext.halves")


def test_a_backend_of_halves_is_tried_on_halves(backend):
    asked = BackendAnswers(backend)
    cases = all_cases(asked, 0, ())
    assert {c.operator for c in cases} == {"nn.conv2d", "nn.relu", "halves.add_relu"}
    assert not asked.unmade and not asked.never
    for case in cases:
        assert {a.dtype.name for a in case.feeds[0]} == {"float16"}, case.name
    kinds = {c.kind for c in cases}
    assert {"sample", "patterns", "layouts", "constant inputs", "free sizes", "empty tensors"} <= kinds
    assert len({c.name for c in cases}) == len(cases)
