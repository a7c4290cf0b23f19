"""Mistakes of a new vendor, each reported in one sentence: the backend or region, what was expected, what was found.

What a vendor's own code raises is reported with the line of it. Each stands in a file that ``import_backend`` takes, as
``--import`` does, so that a mistake is met where a vendor would meet it.
"""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from vendor_files import BACKEND, COMPILE, HEAD, MODULE, compiled, shown

import byoc
from byoc import relay
from byoc.errors import ByocError, OutOfMemoryError, PartitionError
from byoc.ir.op import get_op, register_op_attr
from byoc.ir.registry import GLOBAL_FUNCTIONS, register_func

pytestmark = pytest.mark.needs_cc

REGION = r"region tvmgen_default_NAME_main_0 \(operators nn.relu\) on NAME failed at "

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
    "factory": (
        BACKEND.format("constraints = (C.tensors_only,)"),
        r"'NAME': constraints\[0\] is the function tensors_only, which makes a constraint, .*: write tensors_only\(\)$",
    ),
    "factory_of_names": (
        BACKEND.format("constraints = (C.operators('nn.relu'), C.dtypes)"),
        r"constraints\[1\] is the function dtypes, which makes a constraint, .*: write dtypes\(\.\.\.\)$",
    ),
    "own_factory": (
        "def small(least, most):\n    'small sizes'\n" + BACKEND.format("constraints = (small,)"),
        r"\[0\] is the function small\(least, most\), expected one that is called with a call alone, as in def",
    ),
    "no_code": (
        "from byoc.contract import constraint\n@constraint\ndef small(call):\n    'small sizes'",
        r"@constraint was given small in the place of its code: write @constraint\(\"dtype\"\) above it",
    ),
    "type_key": (
        MODULE.format("pass") + "class Other(M):\n    type_key = 'NAME'",
        r"module type 'NAME' is loaded by NAME:N \(.*NAME.py:\d+\); NAME:Other \(.*NAME.py:\d+\) must take another "
        r"key, or its place by register_module_loader\('NAME', ..., override=True\)",
    ),
    "type_key_of_ours": (
        "class N(M):\n    type_key = 'json'",
        r"'json' is loaded by byoc.runtime.json.module:JsonModule, of byoc itself; NAME:N .* must take another key$",
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
    "factory": (
        BACKEND.format("def patterns(self): return [('NAME.p', is_op('nn.relu')(wildcard()), C.tensors_only)]"),
        r"NAME.p: its check is the function tensors_only, which makes a constraint, .*: write tensors_only\(\)$",
    ),
    "factories": (
        BACKEND.format("def patterns(self): return [('NAME.p', is_op('nn.relu')(wildcard()), [C.dtypes])]"),
        r"pattern NAME.p: check\[0\] is the function dtypes, which makes a constraint, .*: write dtypes\(\.\.\.\)$",
    ),
    "places": (
        BACKEND.format("def places(self): return 'NAME/float/NHWC'"),
        r"'NAME': its places\(\) gave 'NAME/float/NHWC', expected a sequence of .*, as in \(\"NAME/float/NCHW\",\)",
    ),
    "places_none": (
        BACKEND.format("def places(self): pass"),
        r"its places\(\) gave None, expected a sequence of places",
    ),
    "places_empty": (
        BACKEND.format("def places(self): return []"),
        r"its places\(\) gave \[\], expected a sequence of",
    ),
    "places_number": (
        BACKEND.format("def places(self): return ['NAME/any/any', 3]"),
        r"'NAME': places\(\)\[1\] is 3, expected a place as target/precision/layout, as in \"NAME/float/NCHW\"",
    ),
    "places_word": (
        BACKEND.format("def places(self): return ['NAME/flaot/NHWC']"),
        r"'NAME': places\(\)\[0\] is 'NAME/flaot/NHWC': no precision is called 'flaot'; legal: float, .*; write it",
    ),
    "places_of_another": (
        BACKEND.format("def places(self): return ['c/float/NHWC']"),
        r"'NAME': places\(\)\[0\] is 'c/float/NHWC', which is of another target; its places are its own target's, as",
    ),
    "places_raise": (
        BACKEND.format("def places(self): return {}['k']"),
        r"'NAME': its places\(\) failed: KeyError: 'k' \(NAME.py:\d+\); it must give a sequence of places",
    ),
    "places_no_method": (
        BACKEND.format("places = ('NAME/float/NHWC',)"),
        r"'NAME': its places is \('NAME/float/NHWC',\), expected a method places\(self\) that gives a sequence of",
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
    "optimize_type": (
        BACKEND.format("def optimize(self, region): return relay.Function(region.params, relay.sum(region.params[0]))"),
        r"NAME.optimize gave a region of type .* -> float32, and it was .*: parameters and result keep their types",
    ),
    "elements": (
        MODULE.format(
            "constant_arrays = {'w': np.array(['a', None])}\n    def constants(self): return {self.symbols[0]: ['w']}"
        ),
        r"'NAME': the constant 'w' of the module for \w+ has a NoneType among its elements, expected numbers, or texts",
    ),
    "memory_raises": (
        MODULE.format("def memory(self, symbol): return 1 / 0"),
        r"memory\('\w+'\) of its module N failed: ZeroDivisionError: .* \(NAME.py:\d+\), expected bytes",
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


@pytest.mark.parametrize("mistake", WHEN_IMPORTED)
def test_a_mistake_that_is_told_when_the_file_is_imported(vendor, mistake):
    text, words = WHEN_IMPORTED[mistake]
    with pytest.raises(ByocError) as raised:
        vendor(f"imported_{mistake}", text)
    shown(raised, words, f"imported_{mistake}")


@pytest.mark.parametrize("mistake", WHEN_COMPILED)
def test_a_mistake_that_is_told_when_a_model_is_compiled(vendor, mistake):
    text, words = WHEN_COMPILED[mistake]
    vendor(f"compiled_{mistake}", text)
    with pytest.raises(ByocError) as raised:
        compiled(f"compiled_{mistake}")
    shown(raised, words, f"compiled_{mistake}")


@pytest.mark.parametrize("mistake", WHEN_RUN)
def test_a_mistake_that_is_told_when_a_model_runs(vendor, mistake):
    text, words = WHEN_RUN[mistake]
    vendor(f"run_{mistake}", text)
    library = compiled(f"run_{mistake}")
    with pytest.raises(ByocError) as raised:
        library(np.ones((2, 3), "float32"))
    shown(raised, words, f"run_{mistake}")
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
    shown(raised, words, name)


LEAKY = """
def leaky(x, *, alpha: ANNOTATION):
    return np.where(x < 0, x * alpha, x).astype("float32")
"""
AS = {
    "kernel": """
        @register_backend
        class B(KernelBackend):
            name = "NAME"
        kernel("nn.leaky_relu", "NAME/float/any")(leaky)
        """,
    "table": """
        from byoc.codegen.json.backend import JsonBackend
        from byoc.runtime.json import KernelTable
        KernelTable("NAME").kernel("nn.leaky_relu")(leaky)
        @register_backend
        class B(JsonBackend):
            name = table = "NAME"
        """,
}


@pytest.mark.parametrize("declared", AS)
@pytest.mark.parametrize("annotation", ["int", "bool", "int | None"])
def test_an_annotation_that_does_not_fit_the_attribute_is_named(vendor, declared, annotation):
    name = f"annotated_{declared}_{annotation[-4:]}".lower()
    vendor(name, LEAKY.replace("ANNOTATION", annotation) + textwrap.dedent(AS[declared]))
    x = relay.var("x", shape=(2, 3))
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.nn.leaky_relu(x, 0.25)))
    with pytest.raises(
        ByocError, match=r"kernel '\S+' of table '\S+' declares alpha: .*'0.25' is not of type .*: declare"
    ):
        byoc.compile(mod, [name, "c"])


@pytest.mark.parametrize("name", [r"a\\b", r"a\nb"])
def test_a_member_that_could_not_be_read_back_is_not_saved(vendor, name, tmp_path, request):
    backend = f"member_{request.node.callspec.indices['name']}"
    vendor(backend, MODULE.format(f"def save(self): return {{'{name}': b''}}"))
    with pytest.raises(ByocError, match=r"names a member 'a\\.*b', expected a file's relative name, with / between"):
        compiled(backend).save(tmp_path / "m.byoc")
    assert list(tmp_path.glob("*.byoc")) == []


def test_a_constant_is_in_c_order_before_it_is_saved_too(vendor):
    vendor(
        "turned",
        MODULE.format(
            "def constants(self): return {self.symbols[0]: ['w']}\n"
            "    constant_arrays = {'w': np.float32([[1, 4], [2, 5], [3, 6]]).T}\n"
            "    def initialize(self, symbol, constants): self.given = constants[0].numpy()\n"
            "    def run(self, x, y): assert self.given.flags.c_contiguous; np.copyto(y.numpy(), self.given)"
        ),
    )
    found = compiled("turned")(np.ones((2, 3), "float32"))
    np.testing.assert_allclose(found, np.exp([[1, 2, 3], [4, 5, 6]]), rtol=1e-6)


def test_a_class_that_nobody_registered_is_named_with_what_to_write(tmp_path):
    """A vendor's file that is imported as a module of Python is: ``--import`` registers what stands in it."""
    file = tmp_path / "plain_import.py"
    file.write_text((HEAD + MODULE.format("pass") + "register_backend(B)\n").replace("NAME", "plain_import"))
    code = "import plain_import, numpy as np, byoc\nfrom byoc import relay\nx = relay.var('x', shape=(2,))\n"
    code += "mod = byoc.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))\n"
    code += "path = byoc.compile(mod, ['plain_import', 'c']).save('m.byoc')\n"
    load = "print(byoc.runtime.load(path)(np.float32([-1, 2])))"
    done = subprocess.run([sys.executable, "-c", code + load], cwd=tmp_path, capture_output=True, text=True)
    advice = "register_module_loader('plain_import', N)"
    assert f"plain_import:N ({file}:" in done.stderr and f"nobody registered it: write {advice} below it" in done.stderr
    mended = f"from byoc.runtime import register_module_loader\n{advice.replace('N)', 'plain_import.N)')}\n{load}"
    done = subprocess.run([sys.executable, "-c", code + mended], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "[0. 2.]\n", done.stderr


def test_limits_and_constraints_may_be_told_in_other_forms(vendor):
    vendor("other_forms", BACKEND.format("limits = {'max_operators': 4}\n    constraints = [C.operators('nn.relu')]"))
    assert [region.target for region in compiled("other_forms").plan.regions] == ["other_forms"]
    vendor("of_a_generator", BACKEND.format("constraints = (c for c in [C.operators('nn.relu')])"))
    assert [region.target for region in compiled("of_a_generator").plan.regions] == ["of_a_generator"]


@pytest.mark.parametrize("compiler, hint", [("relaychp", r"; did you mean 'relaychp'\?"), ("elsewhere", "$")])
def test_a_compiler_of_relays_style_under_another_name_is_told_from_a_missing_target(compiler, hint):
    register_func(f"relay.ext.{compiler}", lambda function: None)
    register_op_attr("nn.relu", "target.relaychip", lambda call: True)
    x = relay.var("x", shape=(2,))
    model = byoc.IRModule.from_expr(relay.Function([x], relay.nn.relu(x)))
    try:
        for ask in (byoc.compile, byoc.plan):
            with pytest.raises(
                PartitionError,
                match=r"the target 'relaychip' has patterns or annotations \(target.relaychip\) and no compiler: write "
                rf'@register_func\("relay.ext.relaychip"\) above it; registered are .*relay.ext.{compiler}.*' + hint,
            ):
                ask(model, ["relaychip", "c"])
    finally:
        get_op("nn.relu").reset_attr("target.relaychip")
        GLOBAL_FUNCTIONS.unregister(f"relay.ext.{compiler}")
