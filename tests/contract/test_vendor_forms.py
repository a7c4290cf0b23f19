"""What a vendor writes in another form than the contract's: attributes, constraints, hooks, what a module says."""

import numpy as np
import pytest
from vendor_files import BACKEND, COMPILE, MODULE, compiled, shown

import byoc
from byoc.errors import ByocError

pytestmark = pytest.mark.needs_cc
WHEN_IMPORTED = {
    "dtypes_list": ("C.dtypes(['float32'])", r"dtypes\(\) was given \['float32'\], expected names, as in dtypes\("),
    "operators_list": ("C.operators(['add'])", r"operators\(\) was given \['add'\], expected names, as in operators\("),
    "ranks_list": ("C.ranks([2, 4])", r"ranks\(\) was given \[2, 4\], expected whole numbers, as in ranks\(2, 4\)"),
    "ranks_text": ("C.ranks('2')", r"ranks\(\) was given '2', expected whole numbers"),
    "groups_truth": ("C.groups(True)", r"groups\(\) was given True, expected whole numbers"),
    "layout": ("C.layouts('NHHC')", r"layouts\(\): 'NHHC' is no layout, expected axes in their order, as in 'NHWC'"),
    "layout_small": ("C.layouts(data='NHWC', kernel='hwio')", r"'hwio' is no layout"),
    "attribute": (
        "C.attributes(dilatoin=1)",
        r"attributes\(\): no operator has an attribute 'dilatoin'; did you mean 'dilation'\?",
    ),
    "small_dtypes": (BACKEND.format("small_dtypes = 'int4'"), r"'NAME': small_dtypes is 'int4', expected the element"),
    "small_dtype": (BACKEND.format("small_dtypes = ('int5',)"), r"'NAME': small_dtypes: no dtype is called 'int5'"),
    "precisions": (
        BACKEND.format("precisions_inside = 'fp16'"),
        r"precisions_inside is 'fp16', expected precisions of",
    ),
    "devices": (BACKEND.format("devices = 'cpu'"), r"devices is 'cpu', expected kinds of devices, as in"),
    "deviations": (
        "from byoc.contract import NAN_LOST\n" + BACKEND.format("deviations = NAN_LOST"),
        r"'NAME': deviations is Deviation\(.*, expected a sequence, as in deviations = \(NAN_LOST,\)",
    ),
    "quantized_truth": (
        BACKEND.format("quantized = True"),
        r"'NAME': quantized is True, expected the integers that it",
    ),
    "init": (
        "@register_backend\n" + BACKEND.format("def __init__(self, path): pass").lstrip(),
        r"register_backend: B\(\) failed: TypeError: .* missing 1 required .*'path'; a class is made without arguments",
    ),
    "property": (
        BACKEND.format("constraints = property(lambda self: self.table['relu'])"),
        r"'NAME': its constraints failed: AttributeError: .* no attribute 'table'",
    ),
    "two_hooks": (
        "from byoc.contract import RegionGenerator, makes\nclass G(RegionGenerator):\n"
        "    @makes('nn.relu')\n    def relu(self, node, x): return x\n"
        "    @makes('add', 'nn.relu')\n    def add(self, node, x, y=None): return y",
        r"G has two hooks for nn.relu, relu and add: one method makes an operator",
    ),
    "makes_of_nothing": (
        "from byoc.contract import makes\n@makes\ndef relu(self, node, x): return x",
        r"@makes was given relu, expected names: write @makes\(\"nn.relu\"\) above the method",
    ),
    "location": (
        "from byoc.runtime import register_module_loader\nregister_module_loader('NAME', 'NAME_module')",
        r"module type 'NAME': its location is 'NAME_module', expected 'package.module:Class'",
    ),
    "kernel_inputs": (
        "kernel('add', 'arm/float/any', inputs=2)",
        r"kernel add:def@arm/float/any: inputs is 2, expected types by name, in order, None being that of the place",
    ),
}
GENERATOR = """
from byoc.contract import RegionGenerator, makes
class G(RegionGenerator):
    def input(self, spec): return spec.name
    @makes("nn.relu")
    def relu(self, node, x):
        {}
    def compile(self, results):
        {}
class B(Base):
    name = "NAME"
    def compile(self, function, options):
        return G(function, options).generate()
"""
WHEN_COMPILED = {
    "named_operators": (
        BACKEND.format("def named_operators(self): return ['add']"),
        r"'NAME': its named_operators\(\) gave \['add'\], expected pairs of an operator's name and of what",
    ),
    "hook": (
        GENERATOR.format("x", "return M(self.symbol)"),
        COMPILE + r"G.relu returned None for nn.relu, expected what stands for its result",
    ),
    "generator": (
        GENERATOR.format("return x", "M(self.symbol)"),
        COMPILE + r"G.compile\(results\) gave a NoneType, expected the module",
    ),
    "generator_constants": (
        "class N(M):\n    def constants(self): return ['w']\n" + GENERATOR.format("return x", "return N(self.symbol)"),
        r"constants\(\) of its module for tvmgen_default_NAME_main_0 gave \['w'\], expected the names",
    ),
    "symbol": (
        MODULE.format("def constants(self): return {'other': ['w']}"),
        r"constants\(\) of its module .* names the symbol 'other', which is none of its own",
    ),
    "type_key": (
        MODULE.format("def __init__(self, symbol):\n        super().__init__(symbol)\n        self.type_key = 'json'"),
        r"'NAME': its module for tvmgen_default_NAME_main_0 .* has the type_key 'json' of a module of byoc itself",
    ),
    "symbols": (
        MODULE.format("def __init__(self, symbol):\n        super().__init__(symbol)\n        self.symbols = symbol"),
        r"symbols of its module for \w+ \(.*\) is the text 'tvmgen_default_NAME_main_0', expected a sequence of names",
    ),
}


@pytest.mark.parametrize("mistake", WHEN_IMPORTED)
def test_a_form_that_is_told_when_the_file_is_imported(vendor, mistake):
    text, words = WHEN_IMPORTED[mistake]
    with pytest.raises(ByocError) as raised:
        vendor(f"form_{mistake}", text)
    shown(raised, words, f"form_{mistake}")


@pytest.mark.parametrize("mistake", WHEN_COMPILED)
def test_a_form_that_is_told_when_a_model_is_compiled(vendor, mistake):
    text, words = WHEN_COMPILED[mistake]
    vendor(f"form_{mistake}", text)
    with pytest.raises(ByocError) as raised:
        compiled(f"form_{mistake}")
    shown(raised, words, f"form_{mistake}")


def test_a_region_without_constants_is_initialised_too(vendor, tmp_path):
    vendor(
        "form_initialize",
        MODULE.format(
            "def initialize(self, symbol, constants): self.given = (symbol, [c.numpy() for c in constants])\n"
            "    def run(self, x, y):\n        assert self.given == (self.symbols[0], [])\n"
            "        np.copyto(y.numpy(), np.maximum(x.numpy(), 0))"
        ),
    )
    library = compiled("form_initialize")
    ones = np.ones((2, 3), "float32")
    again = byoc.runtime.load(library.save(tmp_path / "form.byoc"))
    assert library(-ones).tolist() == again(-ones).tolist() == ones.tolist()


def test_a_subclass_may_give_a_hook_of_another_name():
    from byoc.contract import RegionGenerator, makes

    class First(RegionGenerator):
        @makes("nn.relu")
        def relu(self, node, x):
            return "first"

    class Second(First):
        @makes("nn.relu", "add")
        def better(self, node, *x):
            return "second"

    assert Second.operators() == ("nn.relu", "add") and First.operators() == ("nn.relu",)
