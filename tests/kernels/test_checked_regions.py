"""``BYOC_CHECK`` and regions that a vendor's generator compiles as one function, whatever executes them."""

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.codegen.c.region_source import compiled_region, size_text
from byoc.contract import Backend, register_backend, spec_of, steps_of
from byoc.contract.constraints import operators
from byoc.driver.vm import compile_module
from byoc.errors import CompileError
from byoc.runtime import cpu
from byoc.runtime.errors import ContractError
from byoc.runtime.vm import VirtualMachine

pytestmark = pytest.mark.needs_cc
EXECUTORS = ("aot", "graph", "vm", "saved")
X = np.float32([[-1, 2, -3, 4]] * 3)
LAST = "value_{n}[{size}]"
# what the second of the region's three operators does beside its work, alone and where each is known by its name
MISTAKES = {
    "behind": ("{out}[{size}] = 1;", "it wrote 4 bytes behind the end of its output 0"),
    "input": ("((float *)value_0)[0] = 7;", "it wrote to its input 0"),
    "unset": ("if (0)", r"it left \d+ of 12 elements of its output 0"),
    "nan": ("{out}[0] = NAN;", "its output 0 .*has NaN in"),
    "workspace": ("workspace[used] = 1;", "it wrote 1 byte behind the end of its workspace"),
}


@pytest.fixture
def vendor(backends):
    """A function that registers a backend whose second operator has a mistake."""

    def made(mistake="", knows=False):
        @register_backend
        class Whole(Backend):
            """Regions as one function of C."""

            name = "whole"
            constraints = (operators("negative", "nn.relu", "exp"),)

            def compile(self, function, options):
                region = steps_of(function)
                texts = [statement(step, mistake) for step in region.steps]
                return compiled_region(region, texts, names=[step.name for step in region.steps] if knows else ())

        return Whole

    return made


def statement(step, mistake):
    source, out = f"value_{step.inputs[0]}", f"value_{step.outputs[0]}"
    size = size_text(spec_of("", step.call.checked_type))
    value = {"negative": "-{a}", "nn.relu": "{a} < 0 ? 0 : {a}", "exp": "expf({a})"}[step.name]
    loop = f"for (int64_t i = 0; i < {size}; ++i) {out}[i] = {value.format(a=f'{source}[i]')};"
    if step.name != "nn.relu" or not mistake:
        return loop
    text = mistake.format(out=out, size=size)
    return f"{text} {loop}" if mistake == "if (0)" else f"{loop} {text}"


def model():
    """A region whose values between the operators lie in its workspace, and which gives the second one's result."""
    x = relay.var("x", shape=(3, 4))
    inner = relay.nn.relu(relay.negative(x))
    return byoc.IRModule.from_expr(relay.Function([x], relay.Tuple([inner, relay.exp(inner)])))


def run(executor, tmp_path):
    if executor == "vm":
        mod = relay.transform.InferType()(model())
        for step in ("AnnotateTarget", "MergeCompilerRegions", "PartitionGraph"):
            mod = getattr(relay.transform, step)(*(["whole"] if step == "AnnotateTarget" else []))(mod)
        return [np.asarray(a) for a in VirtualMachine(compile_module(mod), cpu()).run(X)]
    library = byoc.compile(model(), ["whole", "c"])
    assert len(library.plan.regions) == 1
    if executor == "saved":
        library = byoc.load(library.save(tmp_path / "m.byoc"))
    return (library.graph_executor() if executor == "graph" else library.executor())({"x": X})


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_region_that_is_one_function_is_found(vendor, executor, mistake, monkeypatch, tmp_path):
    text, sentence = MISTAKES[mistake]
    vendor(text)
    monkeypatch.setenv("BYOC_CHECK", "1")
    with pytest.raises(ContractError, match=rf"region \S+ \(operators .*\) on whole failed at launch: {sentence}"):
        run(executor, tmp_path)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("mistake", [m for m in MISTAKES if m not in ("workspace", "input")])
def test_where_each_operator_has_its_statement_the_wrong_one_is_named(vendor, executor, mistake, monkeypatch, tmp_path):
    text, sentence = MISTAKES[mistake]
    vendor(text, knows=True)
    monkeypatch.setenv("BYOC_CHECK", "1")
    with pytest.raises(ContractError, match=rf"on whole failed at launch: kernel nn.relu, step 2 of 3: {sentence}"):
        run(executor, tmp_path)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("knows", [False, True])
def test_a_region_without_mistakes_is_right_under_checks(vendor, executor, knows, monkeypatch, tmp_path):
    vendor(knows=knows)
    monkeypatch.setenv("BYOC_CHECK", "1")
    one, two = run(executor, tmp_path)
    np.testing.assert_array_equal(one, np.maximum(-X, 0))
    np.testing.assert_allclose(two, np.exp(np.maximum(-X, 0)), rtol=1e-6)


@pytest.fixture
def written(backends):
    """A function that registers a backend whose statements, and their names, a function of the region's steps gives."""

    def made(give):
        @register_backend
        class Written(Backend):
            """Regions as one function of C."""

            name = "whole"
            constraints = (operators("negative", "nn.relu", "exp"),)

            def compile(self, function, options):
                region = steps_of(function)
                texts, names = give(region.steps)
                return compiled_region(region, texts, names=names)

        return Written

    return made


@pytest.mark.parametrize("asked", ["0", "1"])
def test_named_statements_may_declare_the_same_and_end_with_a_comment(written, asked, monkeypatch, tmp_path):
    monkeypatch.setenv("BYOC_CHECK", asked)
    own = "const int64_t mine = {k}; (void)mine; {text} // the {k}th"
    written(
        lambda steps: (
            [own.format(k=k, text=statement(step, "")) for k, step in enumerate(steps)],
            [step.name for step in steps],
        )
    )
    one, two = run("aot", tmp_path)
    np.testing.assert_array_equal(one, np.maximum(-X, 0))
    np.testing.assert_allclose(two, np.exp(np.maximum(-X, 0)), rtol=1e-6)


def test_a_named_statement_that_uses_a_variable_of_another_is_refused(written, tmp_path):
    def texts(steps):
        first, *others = [statement(step, "") for step in steps]
        return [f"int mine = 1; {first}", *(f"mine = 2; {text}" for text in others)]

    written(lambda steps: (texts(steps), [step.name for step in steps]))
    with pytest.raises(CompileError, match="error: .mine. undeclared"):
        run("aot", tmp_path)
    written(lambda steps: (texts(steps), ()))
    np.testing.assert_array_equal(run("aot", tmp_path)[0], np.maximum(-X, 0))


@pytest.mark.parametrize(("texts", "names"), [(3, 2), (2, 3), (4, 4)])
def test_names_that_are_not_one_for_each_statement_and_step_are_refused(written, texts, names, tmp_path):
    written(lambda steps: ([""] * texts, [f"s{k}" for k in range(names)]))
    sentence = f"has 3 steps, and compiled_region was given {texts} statements with {names} names: give one statement"
    with pytest.raises(CompileError, match=sentence):
        run("aot", tmp_path)
