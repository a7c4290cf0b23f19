"""What a saved artefact needs of a vendor's package is found by entry points, in a process without the compiler."""

import os
import subprocess
import sys
import textwrap
import zipfile

import pytest

from byoc.runtime.core.device import DEVICE_TYPES, register_device_kind
from byoc.runtime.core.entry_points import EntryPoints, advice
from byoc.runtime.core.errors import DeviceError, UserError
from byoc.runtime.json.table import get_table
from byoc.runtime.modules.module import LOADERS, Module, module_class, register_module_loader

COMPILER = (
    "byoc.ir",
    "byoc.te",
    "byoc.relay",
    "byoc.contract",
    "byoc.codegen",
    "byoc.partition",
    "byoc.driver",
    "onnx",
)

RUNTIME_HALF = '''
import json
import numpy as np
from byoc.runtime import Module, register_device_kind
from byoc.runtime.json import KernelTable

TABLE = KernelTable("acme_kernels")
register_device_kind("acme_card", like="cuda")

@TABLE.kernel("nn.relu")
def relu(data):
    return np.maximum(data, 0)

class AcmeModule(Module):
    """Regions that double."""
    type_key = "acme"

    def __init__(self, symbols):
        super().__init__()
        self.symbols = tuple(symbols)

    def get_function(self, name, query_imports=False):
        def run(x, y):
            np.multiply(x.numpy(), 2, out=y.numpy())
        return run if name in self.symbols else None

    def save(self):
        return {"symbols.json": json.dumps(self.symbols).encode()}

    @classmethod
    def load(cls, members):
        return cls(json.loads(bytes(members["symbols.json"])))
'''
COMPILER_HALF = '''
from byoc.codegen.json.backend import JsonBackend
from byoc.contract import Backend, accept, callee_name, refuse
from acme_runtime import AcmeModule

def only(name):
    def supports(self, call):
        return accept(call) if callee_name(call) == name else refuse(call, "operator", f"{name} alone")
    return supports

class Acme(Backend):
    """Negates."""
    name = "acme"
    supports = only("multiply")

    def compile(self, function, options):
        return AcmeModule([function.attrs["global_symbol"]])

class AcmeKernels(JsonBackend):
    """Rectifies."""
    name = "acme_kernels"
    table = "acme_kernels"
    constraints = ()
    supports = only("nn.relu")
'''
ENTRY_POINTS = """
[byoc.backends]
acme = acme_compiler:Acme
acme_kernels = acme_compiler:AcmeKernels

[byoc.runtime]
acme = acme_runtime:AcmeModule
acme_kernels = acme_runtime:TABLE
acme_card = acme_runtime
"""
COMPILE = """
import byoc
from byoc import relay
x = relay.var("x", shape=(3,))
mod = byoc.IRModule.from_expr(relay.Function([x], relay.nn.relu(x * relay.const(2.0))))
library = byoc.compile(relay.transform.InferType()(mod), targets=["acme", "acme_kernels", "c"])
assert [m.type_key for m in library.module.imports] == ["acme", "json"], library.module.tree()
library.save("m.byoc")
"""
RUN = f"""
import sys
import numpy as np
import byoc.runtime
print(byoc.runtime.load("m.byoc")(np.array([-1, 0, 3], "float32")).tolist())
print(byoc.runtime.device("acme_card").device_type)
print([name for name in sys.modules if name.startswith({COMPILER!r})])
"""


def installed(folder, runtime=RUNTIME_HALF):
    """A package as an installer leaves it: its modules, and what it says of itself."""
    about = folder / "acme_byoc-1.2.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-byoc\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "acme_runtime.py").write_text(runtime)
    (folder / "acme_compiler.py").write_text(COMPILER_HALF)
    return folder


def python(code, folder, package=None):
    environment = {**os.environ, "PYTHONPATH": str(package) if package else "", "BYOC_CACHE_DIR": str(folder / "cache")}
    words = [sys.executable, "-c", code] if "\n" in code else [sys.executable, "-m", *code.split()]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with an artefact of a vendor's module and of a vendor's kernels, and the folder of its package."""
    folder = tmp_path_factory.mktemp("saved")
    package = installed(folder / "site")
    done = python(COMPILE, folder, package)
    assert done.returncode == 0, done.stderr
    return folder, package


@pytest.mark.needs_cc
def test_an_artefact_of_an_installed_package_runs_by_the_runtime_alone(saved):
    folder, package = saved
    done = python(RUN, folder, package)
    assert done.stdout.splitlines() == ["[0.0, 0.0, 6.0]", "2", "[]"], done.stderr
    done = python("byoc run m.byoc --random", folder, package)
    assert done.returncode == 0, done.stderr


@pytest.mark.needs_cc
def test_without_the_package_the_error_says_what_to_install_and_inspect_shows_the_artefact(saved):
    folder, _ = saved
    done = python(RUN, folder)
    assert "nothing here loads modules of type 'acme'; known: " in done.stderr
    assert done.stderr.rstrip().endswith("; install acme-byoc 1.2, with which it was made")
    done = python("byoc run m.byoc --random", folder)
    assert done.returncode == 3 and "install acme-byoc 1.2, with which" in done.stderr
    done = python("byoc inspect m.byoc", folder)
    assert done.returncode == 0, done.stderr
    assert "    acme: tvmgen_default_acme_main_0" in done.stdout
    assert "cannot run here: module 0 (acme): nothing here loads modules of type 'acme'" in done.stdout
    assert "cannot run here: module 1 (json): no kernel table is called 'acme_kernels'; known: numpy" in done.stdout
    assert "acme_kernels  nn.relu" in done.stdout  # the plan


@pytest.mark.needs_cc
def test_a_package_that_cannot_be_imported_is_reported_and_inspected(saved, tmp_path):
    folder, _ = saved
    package = installed(tmp_path / "site", "import acme_sdk\n")
    done = python(RUN, folder, package)
    assert "type 'acme' cannot be loaded here: its package cannot be imported (ModuleNotFound" in done.stderr
    assert "install acme-byoc" not in done.stderr  # it is
    done = python("byoc inspect m.byoc", folder, package)
    assert done.returncode == 0 and "'acme_kernels': its package cannot be imported (ModuleNotFound" in done.stdout


@pytest.mark.needs_cc
def test_damaged_members_of_an_unknown_module_are_reported_all_the_same(saved, tmp_path):
    folder, _ = saved
    with zipfile.ZipFile(folder / "m.byoc") as before, zipfile.ZipFile(tmp_path / "m.byoc", "w") as after:
        for name in before.namelist():
            data = before.read(name)
            after.writestr(name, data[:-1] + b"}" if name.endswith("symbols.json") else data)
    done = python("byoc inspect m.byoc", tmp_path)
    assert done.returncode == 2 and "is damaged (its SHA-256 differs)" in done.stderr


BLAS = """
import numpy as np
import byoc
from byoc import relay
x = relay.var("x", shape=(2, 3))
weight = relay.const(np.arange(12, dtype="float32").reshape(4, 3))
mod = byoc.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, weight)))
library = byoc.compile(relay.transform.InferType()(mod), targets=["blas", "c"])
assert "blas" in library.module.tree()
library.save("m.byoc")
"""


def test_an_artefact_of_blas_runs_in_a_new_process(tmp_path):
    done = python(BLAS, tmp_path)
    assert done.returncode == 0, done.stderr
    run = RUN.replace("np.array([-1, 0, 3], ", "np.ones((2, 3), ").replace('"acme_card"', '"cuda"')
    done = python(run, tmp_path)
    assert done.stdout.splitlines() == ["[[3.0, 12.0, 21.0, 30.0], [3.0, 12.0, 21.0, 30.0]]", "2", "[]"], done.stderr


def test_an_entry_point_is_loaded_once_and_may_ask_for_itself(tmp_path, monkeypatch):
    package = installed(
        tmp_path,
        textwrap.dedent(
            """
            from byoc.runtime.core.entry_points import EntryPoints
            times = []
            def ask(points):
                times.append(1)
                return points.load("acme")
            """
        ),
    )
    monkeypatch.syspath_prepend(package)
    points = EntryPoints("byoc.runtime")
    assert points.package("acme") == "acme-byoc 1.2" and points.package("nobody") is None
    assert points.package("blas") is None  # ours
    assert "of acme-byoc 1.2 names 'AcmeModule', which is not there" in (points.load("acme").problem or "")
    assert points.load("acme") is points.load("acme")
    assert points.load("nobody") == type(points.load("nobody"))()


def test_advice_names_what_is_missing_alone():
    assert advice(("numpy 1.0", "acme-none 3")) == "; install acme-none 3, with which it was made"
    assert advice(("numpy 1.0",)) == advice(()) == ""


def test_a_class_defined_again_takes_its_own_place_and_no_others():
    def define(name, **options):
        methods = {
            "get_function": Module.get_function,
            "save": Module.save,
            "load": classmethod(lambda cls, members: cls()),
        }
        kind = type(name, (Module,), {"type_key": "test_again", **methods})
        register_module_loader("test_again", kind, **options)
        return kind

    try:
        define("Again")
        second = define("Again")
        assert module_class("test_again") is second
        with pytest.raises(UserError, match=r"is loaded by .*:Again \(.*\); .*:Other \(.*\) must take another key, or"):
            define("Other")
        assert module_class("test_again") is second
        other = define("Other", override=True)
        assert module_class("test_again") is other
    finally:
        LOADERS.pop("test_again", None)


def test_a_kind_of_device_is_registered_once():
    try:
        register_device_kind("test_card")
        register_device_kind("test_card")
        with pytest.raises(DeviceError, match="'test_card' already"):
            register_device_kind("test_card", like="cuda")
        with pytest.raises(DeviceError, match="cannot be like 'moon'"):
            register_device_kind("test_other", like="moon")
    finally:
        DEVICE_TYPES.pop("test_card", None)


def test_a_table_whose_package_fails_behind_it_is_not_used(tmp_path, monkeypatch):
    about = tmp_path / "half-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: half\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[byoc.runtime]\nhalf_table = half_made:TABLE\n")
    (tmp_path / "half_made.py").write_text(
        "import ctypes\nfrom byoc.runtime.json import KernelTable\n"
        "TABLE = KernelTable('half_table')\nctypes.CDLL('no_such_library.so')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):
        with pytest.raises(UserError, match="'half_table': its package cannot be imported.*no_such_library.so"):
            get_table("half_table")


def test_two_packages_that_bring_one_name_are_reported(tmp_path, monkeypatch):
    for name in ("one", "two"):
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[test.group]\nacme = {name}_made:Acme\n")
    monkeypatch.syspath_prepend(tmp_path)
    loaded = EntryPoints("test.group").load("acme")
    assert loaded.values == ()
    assert loaded.broken is None and loaded.problem == (
        "two packages bring the entry point 'acme': one 1.0 (one_made:Acme) and two 1.0 (two_made:Acme); uninstall one "
        "of them, or give its entry point another name"
    )
