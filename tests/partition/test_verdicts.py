"""Verdicts: every failed constraint with its value, also inside of composites and for matches that were refused."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byoc import relay
from byoc.contract import (
    Backend,
    Limits,
    PatternEntry,
    Reason,
    callee_name,
    constraint,
    constraints,
    get_backend,
    judge,
    register_backend,
)
from byoc.errors import InternalError, PartitionError
from byoc.ir.module import IRModule
from byoc.ir.op import OPS, register_op_attr
from byoc.ir.registry import GLOBAL_FUNCTIONS, register_func
from byoc.partition import Plan, make_plan
from byoc.partition.boundaries import Boundaries
from byoc.partition.cut.decide import decide
from byoc.relay import op
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.op.contrib.register import PATTERN_TABLES, register_pattern_table
from byoc.relay.transform import InferType


@constraint("kernel", of="nn.conv2d")
def small_kernel(call):
    """kernel at most 7"""
    return next((k for k in call.attrs.kernel_size if k > 7), None)


@constraint("dtype", of="*")
def floats(call):
    """float32 only"""
    return None if call.checked_type.dtype == "float32" else call.checked_type.dtype


@constraint("operator")
def convolutions(call):
    """convolutions and their composites"""
    name = callee_name(call)
    return None if name == "nn.conv2d" or name.startswith("acme.") else name


class Acme(Backend):
    """A backend of constraints alone."""

    name = "acme"
    constraints = (convolutions, small_kernel, floats)
    entries = (
        PatternEntry("acme.conv2d_relu", is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard())), [small_kernel]),
    )

    def patterns(self):
        return self.entries

    def compile(self, function, options):
        raise NotImplementedError("it is planned for alone")


def network(kernel=9, dtype="float32"):
    x = relay.var("x", shape=(1, 3, 16, 16), dtype=dtype)
    weight = relay.const(np.ones((4, 3, kernel, kernel), dtype))
    conv = op.nn.conv2d(x, weight, kernel_size=(kernel, kernel), channels=4)
    conv.span = relay.Span.named("Conv_0")
    relu = op.nn.relu(conv)
    relu.span = relay.Span.named("Relu_1")
    return relay.IRModule.from_expr(relu)


@pytest.fixture
def acme(backend):
    return backend(kind=Acme)


def test_a_verdict_lists_every_constraint_that_failed_with_its_value(acme):
    plan = make_plan(network(9, "float64"), ["acme"])
    conv, relu = plan.decisions
    ((_, verdict),) = conv.verdicts
    assert [(r.code, r.actual) for r in verdict.reasons] == [("kernel", "9"), ("dtype", "float64")]
    assert "nn.conv2d: kernel at most 7, got 9; float32 only, got float64" in str(verdict)
    assert set(relu.codes) >= {"acme:operator", "acme:dtype", "acme:kernel"}


@pytest.mark.parametrize("policy", ["order", "cost", "score"])
def test_a_match_that_its_constraints_refuse_is_reported_at_each_operator(acme, policy):
    plan = make_plan(network(9), ["acme"], policy=policy)
    shown = "acme.conv2d_relu matched here but was refused: kernel at most 7, got 9 (nn.conv2d, node Conv_0)"
    for node in ("Conv_0", "Relu_1"):
        assert f"acme: {shown} [kernel]" in str(plan.explain(node))
    assert shown in str(plan)
    assert Plan.from_json(json.dumps(plan.to_json())) == plan


def test_a_match_that_its_constraints_accept_becomes_a_composite(acme):
    plan = make_plan(network(7), ["acme"])
    assert plan.regions[0].composites == ("acme.conv2d_relu",) and not plan.host
    assert "matched here" not in str(plan.explain("Conv_0"))


def test_a_composite_that_the_verdict_refuses_says_which_operator_inside(acme, monkeypatch):
    pair = PatternEntry("acme.pair", is_op("nn.relu")(is_op("nn.conv2d")(wildcard(), wildcard())))
    monkeypatch.setattr(Acme, "entries", (pair,))
    plan = make_plan(network(9), ["acme"])
    assert plan.dissolved == {"acme": (0,)}
    refused = plan.decisions[0].verdicts[0][1].matches
    assert refused == (Reason("kernel", "kernel at most 7", "9", "nn.conv2d, node Conv_0", "acme.pair"),)


def test_an_opaque_check_that_says_no_is_reported_with_its_docstring(acme, monkeypatch):
    def never(root):
        """Only on Tuesdays."""
        return False

    pattern = is_op("nn.relu")(wildcard())
    monkeypatch.setattr(Acme, "entries", (PatternEntry("acme.relu", pattern, never),))
    plan = make_plan(network(3), ["acme"])
    assert plan.host[0].codes == ("acme:operator", "acme:check")
    assert "acme.relu matched here but was refused: Only on Tuesdays" in str(plan)


def test_a_constraint_that_raises_does_not_hide_the_others():
    @constraint("broken")
    def broken(call):
        """never works"""
        return call.nothing

    verdict = judge(network(9)["main"].body.args[0], [broken, small_kernel])
    assert [r.code for r in verdict.reasons] == ["error", "kernel"]
    assert "the constraint broken (never works) failed when asked: AttributeError" in str(verdict)


def test_a_constraint_needs_a_docstring():
    with pytest.raises(PartitionError, match="constraint 'x' needs a docstring"):
        constraint("x")(lambda call: None)


def test_a_constraint_about_an_operator_that_there_is_not_is_refused_when_its_backend_is_used(backend):
    def about(name):
        def one_group(call):
            """one group"""

        return constraint("groups", of=name)(one_group)

    class Typo(Acme):
        """A backend with a constraint that would never be asked."""

        name = "typo"
        constraints = (*Acme.constraints, about(["nn.relu", "nn.conv2dd"]))
        entries = ()

    class InPattern(Typo):
        name = "in_pattern"
        constraints = Acme.constraints
        entries = (PatternEntry("in_pattern.relu", is_op("nn.relu")(wildcard()), [about("in_pattern.rellu")]),)

    class Right(InPattern):
        name = "right"
        constraints = (*Acme.constraints, about(["right.relu", "test_verdicts.later", "*"]))
        entries = (PatternEntry("right.relu", is_op("nn.relu")(wildcard()), [about("right.relu")]),)

    for kind, message in (
        (Typo, "backend 'typo': its constraint 'groups' is about 'nn.conv2dd', which is neither .*: nn.conv2d,"),
        (InPattern, "its constraint 'groups' is about 'in_pattern.rellu', which .* the nearest: in_pattern.relu"),
    ):
        backend(kind=kind)
        with pytest.raises(PartitionError, match=message):
            make_plan(network(), [kind.name])
    backend(kind=Right)
    register_op_attr("test_verdicts.later", "target.right", lambda call: True)
    try:
        assert get_backend("right")
    finally:
        OPS.unregister("test_verdicts.later")


def test_a_backend_that_gives_no_reason_gets_an_error_that_says_so(acme, monkeypatch):
    silent = judge(network()["main"].body, [])
    monkeypatch.setattr(Acme, "supports", lambda self, call: type(silent)(False, "x"))
    assert make_plan(network(), ["acme"]).host[0].codes[0] == "acme:unexplained"


@pytest.mark.parametrize("doc, text", [("Only on Mondays.", "Only on Mondays"), (None, "the predicate target.toy_old")])
def test_a_predicate_of_an_integration_for_relay_has_a_code_and_its_docstring(doc, text):
    def predicate(call):
        return False

    predicate.__doc__ = doc
    register_pattern_table("toy_old", lambda: [])
    register_func("relay.ext.toy_old", lambda function: None)
    register_op_attr("nn.relu", "target.toy_old", predicate)
    try:
        plan = make_plan(network(), ["toy_old"])
        assert [d.codes for d in plan.host] == [("toy_old:operator",), ("toy_old:predicate",)]
        assert text in str(plan)
    finally:
        GLOBAL_FUNCTIONS.unregister("relay.ext.toy_old")
        PATTERN_TABLES.unregister("toy_old")
        relay.op.get("nn.relu").reset_attr("target.toy_old")


CHOICES = ("yes", "no", "silent", "false", "raises")


class Moody(Backend):
    """Answers as the test sets it, operator by operator."""

    def __init__(self, name, answers, limits):
        self.name, self.answers, self.limits = name, answers, limits

    def patterns(self):
        pair = is_op("exp")(is_op("abs")(wildcard()))
        alone = is_op("abs")(wildcard())
        return [PatternEntry(f"{self.name}.pair", pair, [small_kernel]), PatternEntry(f"{self.name}.abs", alone)]

    def supports(self, call):
        answer = self.answers.get(callee_name(call), "no")
        if answer == "raises":
            raise ValueError("moody")
        if answer in ("yes", "false"):
            return answer == "yes"
        verdict = judge(call, [])
        return type(verdict)(False, verdict.operator, (), () if answer == "silent" else (Reason("mood", "not today"),))

    def compile(self, function, options):
        raise NotImplementedError("it is planned for alone")


@settings(max_examples=60)
@given(data=st.data())
def test_every_operator_on_the_host_has_a_code_under_every_policy(data):
    names = ("abs", "exp", "tanh", "add", "toy_m.pair", "toy_m.abs", "toy_n.pair", "toy_n.abs")
    values = [relay.var("x", shape=(2, 3))]
    for _ in range(data.draw(st.integers(1, 8))):
        name = data.draw(st.sampled_from(names[:4]))
        pick = st.sampled_from(values)
        values.append(getattr(op, name)(*(data.draw(pick) for _ in range(2 if name == "add" else 1))))
    mod = relay.IRModule.from_expr(relay.Function([values[0]], values[-1]))
    answers = st.dictionaries(st.sampled_from(names), st.sampled_from(CHOICES), min_size=3)
    limit = st.sampled_from(
        [
            Limits(),
            Limits(min_operators=2),
            Limits(max_regions=1),
            Limits(min_operations=10),
            Limits(max_bytes=30),
            Limits(max_operators=1),
            Limits(min_gain=1e6),
        ]
    )
    policy = data.draw(st.sampled_from(["order", "score", "cost"]))
    made = [Moody(name, data.draw(answers), data.draw(limit)) for name in ("toy_m", "toy_n")]
    from byoc.contract import BACKENDS
    from byoc.relay.op.contrib.register import TARGET_PREDICATES

    for backend in made:
        register_backend(backend)
    try:
        plan = make_plan(mod, ["toy_m", "toy_n"], policy=policy)
    finally:
        for backend in made:
            for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
                registry.unregister(backend.name)
            GLOBAL_FUNCTIONS.unregister(f"relay.ext.{backend.name}")
    for decision in plan.decisions:
        assert len(decision.verdicts) == 2, decision
        if decision.target is None:
            assert all(code.partition(":")[2] for code in decision.codes)
            assert all(v.why and not v for _, v in decision.verdicts), decision
        else:
            assert [t for t, v in decision.verdicts if v] == [decision.target]


def test_a_code_generator_that_refuses_what_was_accepted_is_its_vendors_mistake(backend):
    import byoc
    from byoc.contract.backend import contradiction
    from byoc.errors import CompileError, UnsupportedError

    class Boaster(Acme):
        def compile(self, function, options):
            raise UnsupportedError("no code for such kernels")

    backend(kind=Boaster)
    with pytest.raises(CompileError) as shown:
        byoc.compile(network(3), targets=["acme", "c"])
    assert "backend 'acme' accepted nn.conv2d, node Conv_0; nn.relu, node Relu_1" in str(shown.value)
    assert "no code for such kernels" in str(shown.value) and "(operator, kernel, dtype)" in str(shown.value)
    assert get_backend("acme").constraints == Acme.constraints
    assert isinstance(contradiction(get_backend("c"), network(3)["main"], "no code"), InternalError)


def taking_all(name: str, *names: str, **fields: object) -> type[Backend]:
    """A backend that asks for nothing but, with *names*, dtypes."""
    given = (constraints.dtypes(*names),) if names else (constraints.operators("transpose", "cast"),)
    return type(name, (Backend,), {"name": name, "constraints": given, **fields})


def test_element_types_of_8_bits_and_less_are_for_backends_that_name_them():
    x = relay.var("x", shape=(2, 3), dtype="int4")
    mod = IRModule.from_expr(relay.Function([x], op.transpose(x)))
    for backend, taken in (
        (taking_all("silent"), False),
        (taking_all("other", "float32", "float8_e5m2"), False),
        (taking_all("naming", "float32", "int4"), True),
        (taking_all("telling", small_dtypes=("int4",)), True),
    ):
        (decision,) = decide(InferType()(mod), [backend()], Boundaries())
        assert (decision.target == backend.name) is taken
        if not taken:
            assert "int4 is for backends that name it: small_dtypes, or dtypes(...)" in str(decision.verdicts[0][1])
