"""A vendor's mistakes against the contract: one sentence when the backend is registered, or taken as they are meant."""

import importlib
import sys

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import BACKENDS, Backend, PatternEntry, callee_name, constraint, get_backend, judge, register_backend
from byoc.errors import CompileError, PartitionError, RegistryError, UserError
from byoc.ir.registry import GLOBAL_FUNCTIONS, Registry, register_func
from byoc.partition.plan.plan import Plan
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES, register_pattern_table
from byoc.runtime.core.errors import KernelError
from byoc.runtime.json import KernelTable
from byoc.runtime.json.table import TABLES
from byoc.runtime.kernels.core.registry import annotation_text
from byoc.runtime.modules.module import Module

NAME = "test_vendor"


@pytest.fixture(autouse=True)
def forgotten():
    """Take away what a test registered."""
    before = {id(r): set(r) for r in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES, GLOBAL_FUNCTIONS)}
    tables = set(TABLES)
    yield
    for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES, GLOBAL_FUNCTIONS):
        for name in set(registry) - before[id(registry)]:
            if "test" in name:
                registry.unregister(name)
    for name in set(TABLES) - tables:
        del TABLES[name]


def only_relu(call):
    """relu alone"""
    return None if callee_name(call) == "nn.relu" else callee_name(call)


def compiles(self, function, options):
    return get_backend("json").compile(function, options)


def vendor(**members):
    """A class of a backend that is right, but for *members*."""
    right = {"name": NAME, "constraints": (only_relu,), "compile": compiles, "__doc__": "A test's."}
    return type("TestVendor", (Backend,), {k: v for k, v in {**right, **members}.items() if v is not ...})


def network():
    x = relay.var("x", shape=(3,))
    return relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.exp(x)))))


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("", "TestVendor needs a name: the target that users will write"),
        (
            "My Chip",
            "TestVendor cannot be called 'My Chip': a name is lower-case letters, digits, _ and -, and ",
        ),
        ("My Chip", "begins with a letter; 'my_chip' would do"),
        ("acme.npu", "'acme_npu' would do"),
        ("3d", "cannot be called '3d': a name is lower-case"),
        ("host", "cannot be called 'host', which is what runs where no target takes an operator; choose another"),
        (7, "TestVendor: its name is a int, expected a text"),
    ],
)
def test_a_name_follows_the_rule(name, sentence):
    with pytest.raises(PartitionError, match=sentence):
        register_backend(vendor(name=name))
    assert name not in BACKENDS


@pytest.mark.parametrize("asked", ["JSON", "Json", "js-on"])
def test_a_name_written_otherwise_is_answered_with_the_name(asked):
    with pytest.raises(PartitionError, match=rf"no backend is called '{asked}'; known: .*; did you mean 'json'\?"):
        get_backend(asked)


def test_the_rule_is_reported_with_the_nearest_name():
    with pytest.raises(PartitionError, match=r"did you mean 'opencl'\? \(a name is lower-case letters, digits"):
        byoc.compile(network(), targets=["OpenCL", "c"])
    with pytest.raises(PartitionError, match=r"did you mean 'opencl'\?$"):
        byoc.compile(network(), targets=["open-cl", "c"])


@pytest.mark.parametrize(
    "members, sentence",
    [
        ({"compile": ...}, r"'test_vendor': TestVendor has no method compile\(self, function, options\), which"),
        (
            {"constraints": ...},
            "'test_vendor': TestVendor does not say what it takes: give it constraints, or a method",
        ),
        ({"constraints": only_relu}, "'test_vendor': constraints is a method, expected a sequence of functions"),
        ({"constraints": "float"}, "'test_vendor': constraints is a str, expected a sequence"),
        ({"constraints": (only_relu, 3)}, r"'test_vendor': constraints\[1\] is 3, expected a function of a call"),
        (
            {"constraints": (lambda call: None,)},
            r"'test_vendor': constraints\[0\]: the function <lambda> has no docstring, which says what is supported",
        ),
    ],
)
def test_what_is_missing_is_reported_when_the_backend_is_registered(members, sentence):
    with pytest.raises(PartitionError, match=sentence):
        register_backend(vendor(**members))
    assert NAME not in BACKENDS and f"relay.ext.{NAME}" not in GLOBAL_FUNCTIONS


@pytest.mark.needs_cc
def test_a_plain_function_with_a_docstring_is_a_constraint_of_its_name():
    register_backend(vendor())
    library = byoc.compile(network(), targets=[NAME, "c"])
    assert [m.type_key for m in library.module.imports] == ["json", "c"]
    assert "test_vendor: relu alone, got exp" in str(Plan.from_json(library.report["plan"]))
    assert [c.code for c in get_backend(NAME).constraints] == ["only_relu"]


def test_the_error_of_a_constraint_that_returns_a_truth_value_says_what_to_return():
    @constraint("operator")
    def relu(call):
        """relu alone"""
        return callee_name(call) == "nn.relu"

    call = network()["main"].body
    for subject, found in ((call, True), (call.args[0], False)):
        (reason,) = judge(subject, [relu]).reasons
        assert str(reason) == (
            f"the constraint operator (relu alone) failed when asked: it returned {found}, which does not say "
            "what was found: return None where the call is supported, and else the value that is not"
        )


@pytest.mark.needs_cc
@pytest.mark.parametrize("check", [(), ([],), ([only_relu],), (lambda match: True,), (None,)])
def test_rows_of_a_pattern_table_may_be_tuples_as_in_tvm(check):
    def takes_composites(call):
        """exp and relu as one"""
        return None if callee_name(call) == "test_vendor.pair" else callee_name(call)

    def patterns(self):
        return [("test_vendor.pair", is_op("nn.relu")(is_op("exp")(wildcard())), *check)]

    register_backend(vendor(constraints=(takes_composites,), patterns=patterns))
    refused = check == ([only_relu],)
    plan = str(byoc.plan(network(), targets=[NAME, "c"]))
    assert ("0 of 2 calls offloaded" if refused else "1 of 1 calls offloaded") in plan
    if not refused:
        library = byoc.compile(network(), targets=[NAME, "c"])
        x = np.array([-1, 0, 2], "float32")
        np.testing.assert_allclose(library(x), np.exp(x), rtol=1e-6)


@pytest.mark.parametrize(
    "rows, sentence",
    [
        ([3], "row 0 of its pattern table is 3, expected PatternEntry"),
        ([("a",)], r"row 0 of its pattern table is \('a',\), expected PatternEntry"),
        ([("test_vendor.a", "nn.relu")], "has the name 'test_vendor.a' and a pattern of type str, expected"),
        ([("test_vendor.a", wildcard(), 3)], "the check is 3, expected a function of the match, or constraints"),
        ("nn.relu", r"patterns\(\) gave a str, expected a list of rows"),
        (None, r"patterns\(\) gave a NoneType, expected a list of rows"),
    ],
)
def test_rows_of_another_form_are_reported_when_the_backend_is_first_used(rows, sentence):
    register_backend(vendor(patterns=lambda self: rows))
    with pytest.raises(PartitionError, match=rf"backend 'test_vendor': .*{sentence}"):
        get_backend(NAME)


def test_a_check_without_a_docstring_is_reported_when_the_row_is_made():
    with pytest.raises(PartitionError, match=r"the pattern acme.a: check\[0\]: the function <lambda> has no docstring"):
        PatternEntry("acme.a", wildcard(), [lambda call: None])


class Weighted(Module):
    """A module that adds its constant."""

    type_key = "test_vendor"
    saved: object = None

    def __init__(self, symbol, value):
        super().__init__()
        self.symbols = (symbol,)
        self.constant_arrays = {"w": value}

    def constants(self):
        return {self.symbols[0]: ("w",)}

    def initialize(self, symbol, constants):
        self.weight = constants[0].numpy()

    def get_function(self, name, query_imports=False):
        def run(x, y):
            np.add(x.numpy(), self.weight, out=y.numpy())

        return run if name in self.symbols else None

    def save(self):
        return self.saved


@pytest.mark.needs_cc
def test_constants_may_be_arrays_of_numpy_and_nothing_else():
    value = np.array([1, 2, 3], "float32")
    given = vendor(compile=lambda self, function, options: Weighted(function.attrs["global_symbol"], value))
    register_backend(given)
    library = byoc.compile(network(), targets=[NAME, "c"])
    np.testing.assert_array_equal(library(np.zeros(3, "float32")), value + 1)
    register_backend(
        vendor(compile=lambda self, function, options: Weighted(function.attrs["global_symbol"], [1.0])), override=True
    )
    with pytest.raises(CompileError, match="'test_vendor': the constant 'w' of the module for .* is a list, expected"):
        byoc.compile(network(), targets=[NAME, "c"])


@pytest.mark.needs_cc
@pytest.mark.parametrize(
    "saved, sentence",
    [
        ("text", "cannot be saved: its save gave a str, expected a dictionary of bytes by the names of files"),
        (None, "its save gave a NoneType, expected a dictionary"),
        ({"a": 3}, "its member 'a' is a int, expected bytes or text"),
        ({"../a": b""}, "names a member '../a', expected a file's relative name"),
        ({"/a": b""}, "names a member '/a', expected"),
        ({3: b""}, "names a member 3, expected"),
    ],
)
def test_what_save_gives_is_members(saved, sentence, tmp_path):
    weight = np.zeros(3, "float32")

    def compile(self, function, options):
        module = Weighted(function.attrs["global_symbol"], weight)
        module.saved = saved
        return module

    register_backend(vendor(compile=compile))
    library = byoc.compile(network(), targets=[NAME, "c"])
    with pytest.raises(UserError, match=sentence):
        library.save(tmp_path / "m.byoc")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.needs_cc
def test_text_is_saved_as_utf_8(tmp_path):
    def compile(self, function, options):
        module = Weighted(function.attrs["global_symbol"], np.zeros(3, "float32"))
        module.saved = {"program.txt": "größer"}
        return module

    register_backend(vendor(compile=compile))
    path = byoc.compile(network(), targets=[NAME, "c"]).save(tmp_path / "m.byoc")
    from byoc.runtime.artefact.artifact import read_artifact

    (found,) = [bytes(data) for name, data in read_artifact(path).members.items() if name.endswith("program.txt")]
    assert found == "größer".encode()


# --- again, from the same place or from another ---


def test_a_backend_defined_again_replaces_itself_and_no_other_place_does():
    def define(text):
        @register_backend
        class Cell(JsonBackend):
            """A cell's."""

            name = NAME
            about = text

            if text == "with optimize":

                def optimize(self, region):
                    return region

        return Cell

    define("with optimize")
    assert f"relay.ext.{NAME}.optimize" in GLOBAL_FUNCTIONS
    define("second")
    assert get_backend(NAME).about == "second"
    assert f"relay.ext.{NAME}.optimize" not in GLOBAL_FUNCTIONS  # the second has none
    with pytest.raises(
        RegistryError, match="'test_vendor' is registered twice: .* or pass override=True to replace it"
    ):
        register_backend(vendor())
    assert get_backend(NAME).about == "second"

    @register_backend(override=True)
    class Other(JsonBackend):
        """Another place's."""

        name = NAME
        about = "other"

    assert get_backend(NAME).about == "other" and PATTERN_TABLES[NAME]() == []


CELL = '''
import numpy as np
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import callee_name, constraint, get_backend, register_backend
from byoc.relay.op.contrib.register import register_pattern_table
from byoc.ir.registry import register_func
from byoc.runtime.json import KernelTable
TABLE = KernelTable("test_cell")
@TABLE.kernel("nn.relu")
def relu(data):
    return data
@register_func("test.cell.function")
def function():
    return VERSION
@register_pattern_table("test_cell_relay")
def table():
    return []
@register_backend
class Cell(JsonBackend):
    """A cell's."""
    name = table = "test_cell"
    version = VERSION
'''


def test_a_cell_of_a_notebook_may_run_again(tmp_path):
    """As IPython runs cells: code of files that there are not, in the module ``__main__``."""
    import subprocess

    code = (
        f"cell = {CELL!r}\n"
        "for VERSION in (1, 2):\n"
        "    exec(compile(cell, f'<ipython-input-{VERSION}-abc>', 'exec'))\n"
        "print(get_backend('test_cell').version)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "2\n", done.stderr


def test_a_module_that_is_reloaded_registers_again(tmp_path, monkeypatch):
    (tmp_path / "test_cell_module.py").write_text(CELL.replace("VERSION", "1"))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("test_cell_module")
    (tmp_path / "test_cell_module.py").write_text("\n" + CELL.replace("VERSION", "200"))
    importlib.reload(module)
    assert get_backend("test_cell").version == 200
    (tmp_path / "test_cell_other.py").write_text(CELL.replace("VERSION", "3"))
    with pytest.raises(KernelError, match="'test_cell' already, of .*test_cell_module.py:<module>; choose another"):
        importlib.import_module("test_cell_other")


def test_functions_and_pattern_tables_of_another_place_need_override():
    def first():
        return []

    def second():
        return []

    register_pattern_table("test_table", first)
    register_func("test.override", first)
    for register, kind in ((register_pattern_table, "pattern table"), (register_func, "global function")):
        name = "test_table" if kind == "pattern table" else "test.override"
        with pytest.raises(RegistryError, match=f"{kind} '{name}' is registered twice: .*pass override=True"):
            register(name, second)
        register(name, second, override=True)
    assert PATTERN_TABLES["test_table"] is second and GLOBAL_FUNCTIONS["test.override"] is second


def test_a_registry_keeps_what_has_no_place():
    registry = Registry("test")
    registry.register("a", 1)
    with pytest.raises(RegistryError, match="registered twice"):
        registry.register("a", 2)


def test_kernels_are_replaced_by_themselves_alone():
    table = KernelTable("test_kernels")

    def first(data):
        return data

    def second(data):
        return data

    table.kernel("nn.relu")(first)
    table.kernel("nn.relu")(first)
    with pytest.raises(KernelError, match="'test_kernels' has a kernel 'nn.relu' already, .*first; pass override=True"):
        table.kernel("nn.relu")(second)
    table.kernel("nn.relu", override=True)(second)
    assert table["nn.relu"].function is second


def test_annotations_that_are_not_understood_are_reported_when_the_kernel_is_registered():
    table = KernelTable("test_kernels")
    for bad, found in (
        ("np.ndarray", "the annotation 'np.ndarray'"),
        ("dict", "the annotation 'dict'"),
        (None, "no ann"),
    ):

        def kernel(data, *, scale=1.0):
            return data * scale

        kernel.__annotations__ = {"scale": bad} if bad else {}
        with pytest.raises(
            KernelError,
            match=rf"kernel 'test.scale' of the table 'test_kernels': attribute 'scale' has {found}.*tuple\[int",
        ):
            table.kernel("test.scale")(kernel)


def test_annotations_are_understood_as_text_and_as_types():
    from collections.abc import Sequence
    from typing import List, Optional, Tuple, Union  # noqa: UP035 - as users write them

    pairs = {
        int: "int",
        "float": "float",
        Optional[int]: "int | None",  # noqa: UP045
        Tuple[int, ...]: "tuple[int, ...]",  # noqa: UP006
        Optional[Tuple[int, int]]: "tuple[int, int] | None",  # noqa: UP006, UP045
        Union[int, str]: "int | str",  # noqa: UP007
        tuple[tuple[int, int], ...]: "tuple[tuple[int, int], ...]",
        int | None: "int | None",
        Sequence[np.ndarray]: "Sequence[numpy.ndarray]",
        List[int]: "list[int]",  # noqa: UP006
    }
    for given, text in pairs.items():
        assert annotation_text(given) == text
