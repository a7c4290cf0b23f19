"""The generator's base class: its steps in order, tuples, constants, outputs, and what a missing hook says."""

from typing import ClassVar

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.contract import Backend, PatternEntry, RegionGenerator, constraints, makes, register_backend
from byoc.errors import CompileError
from byoc.relay.dataflow_pattern import is_constant, is_op, wildcard
from byoc.relay.interpreter import evaluate
from byoc.runtime import Module, fill_outputs
from byoc.runtime.region.record import BUILD, CONVERT, compile_stage

pytestmark = pytest.mark.needs_cc
NAME = "test_steps"
X = np.linspace(-1, 1, 12, dtype="float32").reshape(2, 6)


class StepsModule(Module):
    """Calls a Python function for each value."""

    type_key = NAME

    def __init__(self, symbol, names, run):
        super().__init__()
        self.symbols, self._names, self._run, self.given = (symbol,), names, run, []

    def constants(self):
        return {self.symbols[0]: self._names}

    def initialize(self, symbol, constants):
        self.given = [c.numpy() for c in constants]

    def get_function(self, name, query_imports=False):
        return self.run if name in self.symbols else None

    def run(self, *arrays):
        values = [a.numpy() for a in arrays]
        results = self._run(values, self.given)
        fill_outputs(values[len(values) - len(results) :], results)


class Steps(RegionGenerator):
    """Values are functions of the inputs and the constants; the steps are written down."""

    log: ClassVar[list] = []

    def construct(self):
        self.log.append("construct")

    def input(self, spec):
        k = self.inputs.index(spec)
        self.log.append("input")
        return lambda inputs, constants: inputs[k]

    def constant(self, spec, array):
        k = list(self.constants).index(spec.name)
        assert array.shape == spec.shape
        self.log.append("constant")
        return lambda inputs, constants: constants[k]

    def infer(self, spec, value):
        self.log.append(f"infer {spec.dtype}{spec}")

    def output(self, spec, value):
        self.log.append(f"output {spec}")

    @makes("exp", "add")
    def pointwise(self, node, *args):
        self.log.append(node.name)
        of = {"exp": np.exp, "add": np.add}[node.name]
        return lambda *given: of(*(a(*given) for a in args))

    @makes("split")
    def split(self, node, data):
        self.log.append("split")
        axis, parts = node.attrs.axis, len(node.outputs)
        return [lambda *given, k=k: np.split(data(*given), parts, axis)[k] for k in range(parts)]

    @makes("concatenate")
    def concatenate(self, node, *args):
        return lambda *given: np.concatenate([a(*given) for a in args], node.attrs.axis)

    @makes(f"{NAME}.add_exp")
    def add_exp(self, node, data, constant):
        assert node.operator("add").op.name == "add" and node.attrs is None
        return lambda *given: np.exp(data(*given) + constant(*given))

    def compile(self, results):
        self.log.append("compile")
        return StepsModule(
            self.symbol, list(self.constants), lambda inputs, constants: [r(inputs, constants) for r in results]
        )


class StepsBackend(Backend):
    name = NAME
    generator = Steps
    constraints = (constraints.operators(*Steps.operators(), "tanh"), constraints.dtypes("float32"))

    def patterns(self):
        return [PatternEntry(f"{NAME}.add_exp", is_op("exp")(is_op("add")(wildcard(), is_constant())))]

    def compile(self, function, options):
        return self.generator(function, options).generate()


@pytest.fixture
def steps(forget):
    Steps.log.clear()
    backend = register_backend(StepsBackend())
    forget(NAME)
    return backend


def compiled(body):
    x = relay.var("x", shape=(2, 6))
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function([x], body(x))))
    return mod, byoc.compile(mod, [NAME, "c"])


def same(mod, library):
    want = evaluate(mod, [X])
    want = list(want) if isinstance(want, (list, tuple)) else [want]
    got = library.run({"x": X})
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-6)


def test_the_steps_come_in_relays_order(steps):
    same(*compiled(lambda x: relay.exp(relay.exp(x))))
    assert Steps.log == [
        "construct",
        "input",
        "infer float32[2, 6]",
        "exp",
        "infer float32[2, 6]",
        "exp",
        "infer float32[2, 6]",
        "output [2, 6]",
        "compile",
    ]


def test_tuples_constants_and_several_outputs_are_taken_care_of(steps):
    def body(x):
        parts = relay.split(x, 3, 1)
        joined = relay.concatenate([parts[2], relay.exp(parts[0]), parts[1]], 1)
        shifted = relay.exp(relay.add(joined, relay.const(np.ones((1, 6), "float32"))))
        return relay.Tuple([relay.negative(shifted), relay.sigmoid(relay.exp(parts[1])), relay.abs(joined)])

    mod, library = compiled(body)
    same(mod, library)
    assert Steps.log.count("split") == 1 and Steps.log.count("constant") == 1


@pytest.mark.parametrize("takes", ["each place", "each value"])
def test_what_a_composites_hook_is_given_does_not_depend_on_constants_that_are_shared(takes, forget):
    class Twice(Steps):
        if takes == "each place":

            @makes(f"{NAME}.scaled")
            def scaled(self, node, data, factor, shift):
                return lambda *given: data(*given) * factor(*given) + shift(*given)

        else:

            @makes(f"{NAME}.scaled")
            def scaled(self, node, data, both):
                return lambda *given: data(*given) * both(*given) + both(*given)

    class TwiceBackend(StepsBackend):
        generator = Twice
        constraints = (constraints.operators(*Twice.operators()), constraints.dtypes("float32"))

        def patterns(self):
            scaled = is_op("add")(is_op("multiply")(wildcard(), is_constant()), is_constant())
            return [PatternEntry(f"{NAME}.scaled", scaled), *super().patterns()]

    register_backend(TwiceBackend(), override=True)
    forget(NAME)
    row = relay.const(np.arange(6, dtype="float32"))
    mod, library = compiled(lambda x: relay.add(relay.multiply(x, row), row))
    assert library.plan.regions
    same(mod, library)


def test_a_call_without_a_hook_is_the_vendors_mistake_which_names_it(steps):
    with pytest.raises(CompileError) as raised:
        compiled(lambda x: relay.tanh(x))
    text = str(raised.value)
    for words in (f"backend '{NAME}' failed on", "tanh was accepted", "Steps has no hook for it", "@makes('tanh')"):
        assert words in text
    assert compile_stage(raised.value) == CONVERT


def test_a_composite_without_a_hook_is_named_by_its_pattern(steps, monkeypatch):
    hooks = {name: hook for name, hook in Steps._hooks.items() if name != f"{NAME}.add_exp"}
    monkeypatch.setattr(Steps, "_hooks", hooks)
    monkeypatch.setattr(StepsBackend, "supports", lambda self, call: byoc.contract.accept(call))
    with pytest.raises(CompileError, match=f"{NAME}.add_exp was accepted"):
        compiled(lambda x: relay.exp(relay.add(x, relay.const(1.0))))


def test_a_hook_that_gives_another_number_of_values_is_reported(steps, monkeypatch):
    monkeypatch.setattr(Steps, "split", lambda self, node, data: [data])
    with pytest.raises(CompileError, match=r"Steps.split gave 1 values for split, which has 3 outputs"):
        compiled(lambda x: relay.Tuple([relay.tanh(relay.exp(p)) for p in relay.split(x, 3, 1)]))


def test_what_the_last_step_raises_was_raised_when_building(steps, monkeypatch):
    def full(self, results):
        raise MemoryError("4 KB")

    monkeypatch.setattr(Steps, "compile", full)
    with pytest.raises(CompileError, match="4 KB") as raised:
        compiled(lambda x: relay.exp(x))
    assert compile_stage(raised.value) == BUILD


def test_a_subclass_has_the_hooks_of_its_base_and_its_own():
    class More(Steps):
        @makes("tanh")
        def tanh(self, node, data):
            return lambda *given: np.tanh(data(*given))

    assert set(More.operators()) == {*Steps.operators(), "tanh"} and "tanh" not in Steps.operators()
