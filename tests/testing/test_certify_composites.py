"""What certification tries of composites, of large tensors and of special values, and what it says of bad tables."""

import planted_fused
import pytest

from byoc.codegen.json.backend import JsonBackend
from byoc.contract import Backend, PatternEntry, constraint, get_backend, register_backend
from byoc.contract.constraints import layouts, operators
from byoc.ir.op import OPS
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.expr import Call, Constant, Function
from byoc.relay.traverse import dataflow_children, post_order, rewrite
from byoc.testing import certify
from byoc.testing.cases.large import LARGE, LEAST, grown
from byoc.testing.cases.operators import BackendAnswers, call_function, sample_inputs
from byoc.testing.cases.patterns import PATTERN_SAMPLES, pattern_cases
from byoc.testing.cases.special import SPECIAL
from byoc.testing.core.reference import outputs_of


@pytest.fixture
def fused_with():
    """A function from the name of a mistake to that of the backend that has it."""
    names = []

    def register(fault):
        names.append(planted_fused.register(fault))
        return names[-1]

    yield register
    if names:
        planted_fused.forget()


def failing(found):
    return {c.kind for c in found.failures}


@pytest.mark.parametrize("fault", ["strides", "groups", "dilation", "padding", "relu"])
def test_a_fused_kernel_is_tried_on_the_samples_of_its_operators(fused_with, fault):
    found = certify(fused_with(fault), only=[planted_fused.COMPOSITE], saved=False, skip=["outputs filled"])
    assert not found.ok and failing(found) == {PATTERN_SAMPLES}, str(found)


def test_a_fused_kernel_that_is_wrong_on_large_results_alone_is_found(fused_with):
    found = certify(fused_with("big"), only=[planted_fused.COMPOSITE], saved=False, skip=["outputs filled"])
    assert not found.ok and failing(found) == {LARGE}, str(found)


def test_a_pool_that_drops_what_is_no_number_is_found_by_special_values(fused_with):
    found = certify(fused_with("NaN"), only=["nn.max_pool2d"], saved=False, skip=["outputs filled"])
    assert not found.ok and failing(found) == {SPECIAL}, str(found)
    assert "[special values]" in str(found) and found.kinds[SPECIAL] == 2  # and one of denormal numbers


def test_without_a_mistake_it_is_certified_and_says_which_kinds_of_cases_there_were(fused_with):
    found = certify(fused_with("none"), saved=False, skip=["outputs filled", "fallback"])
    assert found.ok, str(found)
    assert {PATTERN_SAMPLES, LARGE, SPECIAL} <= set(found.kinds)
    assert "covered: 4 operators and patterns: nn.conv2d, " in str(found) and not found.untried


@pytest.mark.parametrize("fault, error", [("raises", "no_such"), ("truth", "it returned False")])
def test_a_constraint_that_fails_when_asked_is_reported_once_and_not_certified(fused_with, fault, error):
    found = certify(fused_with(fault), saved=False, skip=["outputs filled", "fallback"])
    shown = str(found)
    assert not found.ok and {c.verdict for c in found.failures} == {"failed when asked"}
    assert "failed when asked: " in shown and shown.count("the constraint planted (what is planted) failed when") == 1
    assert error in shown and "nn.relu" in found.covered


def test_a_pattern_that_never_matches_is_not_certified(fused_with):
    found = certify(fused_with("arity"), only=["nn.relu", planted_fused.COMPOSITE], saved=False, skip=["fallback"])
    (failure,) = found.failures
    assert (failure.operator, failure.verdict) == (planted_fused.COMPOSITE, "failed when asked")
    text = "a call of nn.conv2d has 2 arguments (data, weight), the pattern says 1"
    assert text in failure.findings[0].text and not found.ok


def test_a_pattern_that_is_matched_and_refused_is_untried_and_says_why(fused_with):
    found = certify(fused_with("int8"), only=["nn.relu", planted_fused.COMPOSITE], saved=False, skip=["fallback"])
    assert found.untried[planted_fused.COMPOSITE].startswith(
        "matched, and refused because what is planted, got float32"
    )
    assert "untried: 1 operator or pattern\n  fused.conv_relu: matched, and refused because" in str(found)


def test_a_pattern_whose_composite_nothing_runs_is_not_certified(fused_with):
    found = certify(fused_with("refused"), only=["nn.relu", planted_fused.COMPOSITE], saved=False, skip=["fallback"])
    (failure,) = found.failures
    assert not found.ok and (failure.operator, failure.verdict) == (planted_fused.COMPOSITE, "failed when asked")
    shown = failure.findings[0].text
    assert shown.startswith(
        "the pattern matches and nothing runs its composite, which is refused: the operators nn.relu"
    )
    assert shown.endswith("or leave the row out") and "nn.relu" in found.covered and not found.untried


def test_a_cause_of_the_whole_backend_is_reported_once_with_one_smallest_case(fused_with):
    found = certify(fused_with("loader"), saved=False, skip=["fallback"])
    shown = str(found)
    assert len(found.failures) > 20 and len(found.smallest) == 1
    assert shown.count("no device at") == 2 and f"and {len(found.failures) - 1} more: compile: " in shown


def test_where_nothing_is_covered_the_reasons_are_reported():
    found = certify("blas", only=["nn.dense"], seconds=0, saved=False, skip=["fallback"])
    assert "covered: nothing; nothing that it takes was tried" in str(found)


def test_the_cases_of_a_pattern_are_bounded_and_the_same_every_time():
    first, second = ([c.name for c in pattern_cases(BackendAnswers(get_backend("blas")), 0)] for _ in range(2))
    assert first == second and len(first) < 60
    assert "blas.dense_bias_relu, nn.bias_add[1]" in first


@pytest.mark.parametrize("name", ["nn.conv2d", "nn.dense", "sum", "nn.softmax", "transpose", "concatenate", "take"])
def test_a_larger_sample_is_large_and_odd_and_computed(name):
    op = OPS[name]
    sample = op.samples[0]
    attrs = op.attrs_type(**sample.attrs) if op.attrs_type else None
    function, arrays = grown(*call_function(op, attrs, sample_inputs(sample)))
    (found,) = outputs_of(function, arrays, True)
    assert max(found.size, *(a.size for a in arrays)) >= LEAST
    assert any(size % 2 and size > 10 for a in arrays for size in a.shape)


@pytest.mark.parametrize("is_wrong", [False, True])
def test_a_pattern_that_is_taken_in_another_layout_alone_is_tried_there(of_this_test, is_wrong):
    """No sample of a pool has channels innermost without dilation, and what stands first has no layout."""

    @register_backend
    class Innermost(JsonBackend):
        """A pool behind a relu, as one kernel"""

        name, table = "innermost", "numpy"
        constraints = (operators("innermost.relu_pool"), layouts(data="NHWC"), no_dilation)

        def patterns(self):
            pool = is_op("nn.max_pool2d")(is_op("nn.relu")(wildcard()))
            return [PatternEntry("innermost.relu_pool", pool)]

        def compile(self, function, options):
            return super().compile(without_relu(function) if is_wrong else function, options)

    found = certify("innermost", saved=False, skip=["outputs filled", "fallback"])
    assert found.ok != is_wrong and not found.untried, str(found)
    assert "innermost.relu_pool" in (found.covered if not is_wrong else {c.operator for c in found.failures})
    names = [c.name for c in pattern_cases(BackendAnswers(get_backend("innermost")), 0)]
    assert "innermost.relu_pool[0], planned" in names
    assert "innermost.relu_pool, nn.max_pool2d[4] in another layout" in names


@constraint("dilation", of="nn.max_pool2d")
def no_dilation(call):
    """pools without dilation"""
    return None if tuple(call.attrs.dilation) == (1, 1) else str(call.attrs.dilation)


def without_relu(function):
    """*function* whose composites have no relu."""

    def over(before, after):
        if isinstance(after, Call) and isinstance(after.op, Function):
            return Call(Function(after.op.params, rewrite(after.op.body, over), attrs=after.op.attrs), after.args)
        return after.args[0] if isinstance(after, Call) and after.op is OPS["nn.relu"] else after

    body = rewrite(function.body, over, dataflow_children)
    return infer_function(Function(function.params, body, attrs=function.attrs))


def test_a_constant_of_a_region_beside_those_of_a_composite_is_tried(of_this_test):
    """A generator that numbers constants in another order than Relay mixes them up there alone."""

    @register_backend
    class Ordered(Backend):
        """nn.dense with a bias, and additions"""

        name = "ordered"
        constraints = (operators("add", "ordered.dense_bias"),)

        def patterns(self):
            return [
                PatternEntry("ordered.dense_bias", is_op("add")(is_op("nn.dense")(wildcard(), wildcard()), wildcard()))
            ]

        def compile(self, function, options):
            raise NotImplementedError

    made = {c.name: c.function for c in pattern_cases(BackendAnswers(get_backend("ordered")), 0)}
    function = made["ordered.dense_bias[0], constant inputs, behind an operator with a constant"]
    composite = function.body
    first = composite.args[0]
    assert isinstance(first, Call) and first.op.name == "add" and isinstance(first.args[1], Constant)
    assert len(function.params) == 1
    constants = [n for n in post_order(function) if isinstance(n, Constant)]
    assert len(constants) == 3
