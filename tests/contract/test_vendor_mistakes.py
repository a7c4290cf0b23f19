"""Mistakes of a new vendor, each told in one sentence: the backend or region, what was expected, what was found.

What a vendor's own code raises is told with the line of it. Each stands in a file that ``import_backend`` takes, as
``--import`` does, so that a mistake is met where a vendor would meet it.
"""

import textwrap

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.contract.importing import import_backend
from byoc.errors import ByocError, OutOfMemoryError

pytestmark = pytest.mark.needs_cc

HEAD = """
import numpy as np
from byoc.contract import Backend, Quantized, constraints as C, register_backend
from byoc.kernels import KernelBackend, kernel
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.runtime import Module

class M(Module):
    type_key = "NAME_base"
    def __init__(self, symbol):
        super().__init__()
        self.symbols = (symbol,)
    def get_function(self, name, query_imports=False):
        return self.run if name in self.symbols else None
    def run(self, x, y):
        np.copyto(y.numpy(), np.maximum(x.numpy(), 0))
    def save(self):
        return {"symbol": self.symbols[0].encode()}
    @classmethod
    def load(cls, members):
        return cls(bytes(members["symbol"]).decode())

class Base(Backend):
    "mistaken"
    constraints = (C.operators("nn.relu"),)
    module = M
    def compile(self, function, options):
        return self.module(function.attrs["global_symbol"])
"""
MODULE = """
class N(M):
    type_key = "NAME"
    {}
class B(Base):
    name = "NAME"
    module = N
"""
BACKEND = """
class B(Base):
    name = "NAME"
    {}
"""
REGION = r"region tvmgen_default_NAME_main_0 \(operators nn.relu\) on NAME failed at "
COMPILE = r"backend 'NAME' failed on tvmgen_default_NAME_main_0: "

WHEN_IMPORTED = {
    "exits": ("raise SystemExit(2)", r"cannot be imported: its code asked Python to exit with 2 \(NAME.py:\d+\)"),
    "no_backend": (
        "register_backend(M)",
        "register_backend was given the class M, expected a class made of byoc.contr",
    ),
    "dtype": ("C.dtypes('flaot32')", "no dtype is called 'flaot32'; did you mean 'float32'"),
    "dtype_of_numpy": ("C.dtypes(np.float32)", "no dtype is called .*numpy.float32.*; did you mean 'float32'"),
    "quantized": (
        "Quantized(operators='nn.conv2d')",
        r"operators is a text, expected names, as in operators=",
    ),
    "options": (BACKEND.format("options = 'speed'"), r"backend 'NAME': options is 'speed', expected the names of"),
    "limits": (BACKEND.format("limits = {'operators': 3}"), "NAME: limits are Limits.*, got {'operators': 3}"),
    "limits_of_what": (BACKEND.format("limits = 3"), "NAME: limits are Limits.*, got 3"),
    "kernel": (
        "kernel('nn.relu', 'json/float/any')(42)",
        "is 42, expected a function of arrays, a CSource or an OpenCL",
    ),
    "target": (
        "kernel('nn.relu', 'acmee/float/any')(np.abs)",
        r"no target is called 'acmee'; legal: any, .*; for one of your own, register its backend before",
    ),
    "load": (MODULE.format("def load(self, members): pass"), "N has no class method load.*: write it"),
}
WHEN_COMPILED = {
    "base": (
        BACKEND.format("def compile(self, f, o): raise Odd('x')\nclass Odd(BaseException): pass"),
        COMPILE + "Odd: x",
    ),
    "raises": (BACKEND.format("def compile(self, f, o): return {}['k']"), COMPILE + r"KeyError: 'k' \(NAME.py:\d+\)"),
    "patterns": (
        BACKEND.format("def patterns(self): raise ValueError('x')"),
        r"'NAME': its patterns\(\) failed: ValueErr",
    ),
    "operator": (
        BACKEND.format("def patterns(self): return [('NAME.p', is_op('nn.rellu')(wildcard()))]"),
        r"'NAME': its patterns\(\) failed: no operator is called 'nn.rellu'; the nearest of \d+ known: nn.relu",
    ),
    "unlike_any": (
        BACKEND.format("def patterns(self): return [('NAME.p', is_op('zzzzzz')(wildcard()))]"),
        r"no operator is called 'zzzzzz'; \d+ are known: abs, .*\.\.\.",
    ),
    "wildcard": (
        BACKEND.format("def patterns(self): return [('NAME.p', wildcard())]"),
        r"row 0 of its pattern table, NAME.p, has a pattern without an operator, which any value matches: begin it",
    ),
    "optimize": (
        BACKEND.format("def optimize(self, region): pass"),
        r"NAME.optimize failed: its optimize\(region\) gave a NoneType, expected the region",
    ),
    "constants": (
        MODULE.format("def constants(self): return ['w']"),
        r"'NAME': constants\(\) of its module for tvmgen_default_NAME_main_0 gave \['w'\], expected the names",
    ),
    "constants_text": (
        MODULE.format("def constants(self): return {self.symbols[0]: 'w'}"),
        r"constants\(\) of its module .* gave \{'tvmgen_default_NAME_main_0': 'w'\}, expected the names",
    ),
    "memory": (
        MODULE.format("def memory(self, symbol): return 'lots'"),
        r"'NAME': memory\('tvmgen_default_NAME_main_0'\) of its module N gave 'lots', expected bytes",
    ),
}
LINE = r" \(NAME.py:\d+\); compile with fallback=True"
WHEN_RUN = {
    "raises": (MODULE.format("def run(self, x, y): x.foo"), REGION + "launch: AttributeError: .*'foo'" + LINE),
    "numpys": (MODULE.format("def run(self, x, y): np.split(x.numpy(), 7)"), REGION + "launch: ValueError: .*" + LINE),
    "base": (
        MODULE.format("def run(self, x, y): raise Odd('x')\nclass Odd(BaseException): pass"),
        REGION + "launch: Odd: x" + LINE,
    ),
    "memory": (
        MODULE.format("def run(self, x, y): raise MemoryError"),
        REGION + r"launch, it needs more memory than this process can have: MemoryError, which says nothing" + LINE,
    ),
    "function": (
        MODULE.format("def get_function(self, name, query_imports=False): return 42"),
        REGION + r"load: get_function\('tvmgen_default_NAME_main_0'\) of the module N gave a int, expected what runs",
    ),
    "initialize": (
        MODULE.format("def get_function(self, name, query_imports=False): return {}[name]"),
        REGION + "load: KeyError: 'tvmgen_default_NAME_main_0'" + LINE,
    ),
    "bind": (
        MODULE.format("def get_function(self, name, query_imports=False): return R()\nclass R:").replace(
            "class R:", "class R:\n    def __call__(self, x, y): pass\n    def bind(self, arrays): pass"
        ),
        REGION + r"launch: its bind\(arrays\) gave a NoneType, expected a function without arguments",
    ),
}


@pytest.fixture
def vendor(tmp_path, of_this_test):
    """Imports a vendor's file of that name and text, behind what each of them has."""

    def write(name, text):
        path = tmp_path / f"{name}.py"
        path.write_text((HEAD + textwrap.dedent(text)).replace("NAME", name))
        import_backend(str(path))

    return write


def compiled(name):
    x = relay.var("x", shape=(2, 3))
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.exp(relay.nn.relu(x))))
    return byoc.compile(mod, targets=[name, "c"])


def told(raised, words, name):
    """The error is one line that has these *words*, in which NAME stands for the backend's."""
    assert "\n" not in str(raised.value)
    raised.match(words.replace("NAME", name))


@pytest.mark.parametrize("mistake", WHEN_IMPORTED)
def test_a_mistake_that_is_told_when_the_file_is_imported(vendor, mistake):
    text, words = WHEN_IMPORTED[mistake]
    with pytest.raises(ByocError) as raised:
        vendor(f"imported_{mistake}", text)
    told(raised, words, f"imported_{mistake}")


@pytest.mark.parametrize("mistake", WHEN_COMPILED)
def test_a_mistake_that_is_told_when_a_model_is_compiled(vendor, mistake):
    text, words = WHEN_COMPILED[mistake]
    vendor(f"compiled_{mistake}", text)
    with pytest.raises(ByocError) as raised:
        compiled(f"compiled_{mistake}")
    told(raised, words, f"compiled_{mistake}")


@pytest.mark.parametrize("mistake", WHEN_RUN)
def test_a_mistake_that_is_told_when_a_model_runs(vendor, mistake):
    text, words = WHEN_RUN[mistake]
    vendor(f"run_{mistake}", text)
    library = compiled(f"run_{mistake}")
    with pytest.raises(ByocError) as raised:
        library(np.ones((2, 3), "float32"))
    told(raised, words, f"run_{mistake}")
    assert isinstance(raised.value, OutOfMemoryError) == (mistake == "memory")


def test_a_keyboard_interrupt_in_a_vendors_code_is_the_users(vendor):
    vendor("interrupted", MODULE.format("def run(self, x, y): raise KeyboardInterrupt"))
    with pytest.raises(KeyboardInterrupt):
        compiled("interrupted")(np.ones((2, 3), "float32"))


def test_the_host_stands_in_for_a_region_that_raises_what_is_no_exception(vendor):
    text = MODULE.format("def run(self, x, y): raise Odd('x')\nclass Odd(BaseException): pass")
    vendor("odd_fallback", text)
    x = relay.var("x", shape=(2, 3))
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    library = byoc.compile(mod, targets=["odd_fallback", "c"], fallback=True)
    data = np.float32([[-1, 0, 1], [2, -3, 4]])
    np.testing.assert_array_equal(library(data), np.maximum(data, 0))
    (kept,) = library.fallbacks
    assert "Odd: x" in kept.message and kept.stage == "launch"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("return None", r"load_\d.N.load gave a NoneType, expected the module, as in return cls"),
        ("raise ValueError('bad magic')", r"the loader of .* failed with ValueError: bad magic \(load_\d.py:\d+\)"),
        ("return cls('other')", "which has other: its load must give the symbols that were saved"),
    ],
)
def test_a_load_that_gives_no_module_or_another_one(vendor, text, words, tmp_path, request):
    name = f"load_{request.node.callspec.indices['text']}"
    vendor(name, MODULE.format(f"@classmethod\n    def load(cls, members): {text}"))
    path = compiled(name).save(tmp_path / "m.byoc")
    with pytest.raises(ByocError) as raised:
        byoc.runtime.load(path)
    told(raised, words, name)


def test_limits_and_constraints_may_be_told_in_other_forms(vendor):
    vendor("other_forms", BACKEND.format("limits = {'max_operators': 4}\n    constraints = [C.operators('nn.relu')]"))
    assert [region.target for region in compiled("other_forms").plan.regions] == ["other_forms"]
    vendor("of_a_generator", BACKEND.format("constraints = (c for c in [C.operators('nn.relu')])"))
    assert [region.target for region in compiled("of_a_generator").plan.regions] == ["of_a_generator"]
