"""The import finder: the same module objects, no class twice, no trace after uninstall, scripts and pytest under it."""

import importlib
import os
import subprocess
import sys

import pytest

import byoc
import byoc.compat.tvm as compat
from byoc.errors import UserError

SAME = {
    "tvm.relay": "byoc.relay",
    "tvm.relay.transform": "byoc.relay.transform",
    "tvm.relay.expr": "byoc.relay.expr",
    "tvm.relay.expr_functor": "byoc.relay.functor",
    "tvm.relay.analysis": "byoc.relay.analysis",
    "tvm.relay.dataflow_pattern": "byoc.relay.dataflow_pattern",
    "tvm.relay.op": "byoc.relay.op",
    "tvm.relay.op.nn": "byoc.relay.op.nn",
    "tvm.relay.op.contrib": "byoc.relay.op.contrib",
    "tvm.relay.op.contrib.register": "byoc.relay.op.contrib.register",
    "tvm.relay.frontend": "byoc.relay.frontend",
    "tvm.ir": "byoc.ir",
    "tvm.ir.transform": "byoc.ir.passes.transform",
    "tvm.ir.module": "byoc.ir.module",
    "tvm.ir.op": "byoc.ir.op",
    "tvm.transform": "byoc.ir.passes.transform",
    "tvm.runtime": "byoc.runtime",
    "tvm.runtime.module": "byoc.runtime.modules.module",
    "tvm.nd": "byoc.runtime.core.ndarray",
}
THIN = [
    "tvm.contrib.graph_executor",
    "tvm.contrib.utils",
    "tvm.testing",
    "tvm.target",
    "tvm.tir",
    "tvm.tir.op",
    "tvm.runtime.vm",
    "tvm.runtime.container",
    "tvm.ir.supply",
    "tvm.ir.container",
    "tvm._ffi",
    "tvm._ffi.registry",
    "tvm.support",
    "tvm.error",
    "tvm.relay.build_module",
    "tvm.relay.backend",
    "tvm.relay.backend.te_compiler",
    "tvm.relay.backend.name_transforms",
    "tvm.relay.backend.interpreter",
    "tvm.relay.backend.vm",
    "tvm.relay.testing",
    "tvm.relay.testing.temp_op_attr",
    "tvm.relay.op.op_attrs",
    "tvm.relay.op.strategy.generic",
    "tvm.relay._ffi_api",
    "tvm.script.tir",
    "tvm.relay.op._make",
    "tvm.runtime.name_transforms",
    "tvm.relay.param_dict",
]


def run(*arguments, folder=None):
    command = [sys.executable, "-m", "byoc.compat.tvm", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ})


@pytest.mark.parametrize("name", SAME)
def test_a_module_of_tvm_is_the_module_of_byoc_itself(installed, name):
    ours = importlib.import_module(SAME[name])
    spec = ours.__spec__
    assert importlib.import_module(name) is ours and sys.modules[name] is ours
    assert ours.__spec__ is spec and spec.name == SAME[name]


@pytest.mark.parametrize("name", THIN)
def test_a_thin_module_is_one_object_under_both_names(installed, name):
    module = importlib.import_module(name)
    assert sys.modules[module.__name__] is module and module.__name__.startswith("byoc.")


def test_classes_are_not_doubled(installed):
    import tvm
    from tvm import relay
    from tvm.relay.dataflow_pattern import CallPattern, is_op, wildcard
    from tvm.relay.expr import Call

    assert tvm.IRModule is byoc.IRModule and tvm.ir.IRModule is byoc.IRModule
    assert tvm.tir.op.Op is tvm.ir.Op is relay.op.Op
    assert isinstance(is_op("add")(wildcard(), wildcard()), CallPattern)
    assert isinstance(relay.add(relay.const(1), relay.const(2)), Call) and Call is relay.Call
    assert tvm.runtime.Module is tvm.runtime.module.Module is byoc.runtime.Module
    assert tvm.nd.NDArray is byoc.runtime.NDArray


def test_names_can_be_imported_from_their_package(installed):
    from tvm import nd, relay, te, testing, tir  # noqa: F401
    from tvm.contrib import graph_executor, utils  # noqa: F401
    from tvm.ir import container, supply  # noqa: F401
    from tvm.relay import build_module, transform  # noqa: F401
    from tvm.relay import testing as relay_testing
    from tvm.relay.backend import Executor, Runtime, te_compiler  # noqa: F401
    from tvm.runtime import vm

    assert relay_testing is relay.testing and vm is importlib.import_module("tvm.runtime.vm")


def test_install_twice_is_install_once(installed):
    before = list(sys.meta_path)
    installed.install()
    assert sys.meta_path == before


def namespaces():
    return {
        name: (module, frozenset(vars(module)))
        for name, module in sys.modules.items()
        if name.startswith("byoc") and not name.startswith("byoc.compat")
    }


def test_uninstall_leaves_no_trace(tmp_path):
    (tmp_path / "acme.py").write_text("from ...dataflow_pattern import is_op\n")
    compat.install()  # the first time loads modules of ours, which stay
    everything_imported()
    compat.uninstall()
    before, path = namespaces(), list(sys.meta_path)
    compat.mount(tmp_path)
    everything_imported()
    from tvm.relay.op.contrib import acme

    assert acme.__name__ == "tvm.relay.op.contrib.acme"
    compat.uninstall()
    after = namespaces()
    assert sys.meta_path == path and [name for name in sys.modules if name.split(".")[0] == "tvm"] == []
    assert {name: names - before[name][1] for name, (_, names) in after.items() if names != before[name][1]} == {}
    assert [name for name, (module, _) in after.items() if module is not before[name][0]] == []
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tvm.relay")


def everything_imported():
    for name in (*SAME, *THIN, "tvm.te.schedule"):
        importlib.import_module(name)


def test_a_tvm_that_is_imported_already_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "tvm", type(sys)("tvm"))
    with pytest.raises(UserError, match="imported already"):
        compat.install()
    assert not compat.is_installed()


def test_a_mounted_module_is_loaded_once_with_its_relative_imports(vendors):
    from tvm.relay.op.contrib import floatlib

    import byoc.relay.op.contrib as ours

    assert ours.floatlib is floatlib is sys.modules["tvm.relay.op.contrib.floatlib"]
    assert floatlib.is_op is byoc.relay.dataflow_pattern.is_op


def test_a_mounted_package_has_modules_of_its_own(installed, tmp_path):
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "__init__.py").write_text("from .rules import ROWS\n")
    (tmp_path / "acme" / "rules.py").write_text("from ....dataflow_pattern import wildcard\nROWS = [wildcard()]\n")
    installed.mount(tmp_path)
    from tvm.relay.op.contrib.acme import ROWS
    from tvm.relay.op.contrib.acme.rules import ROWS as SAME_ROWS

    assert ROWS is SAME_ROWS and isinstance(ROWS[0], byoc.relay.dataflow_pattern.DFPattern)


def test_a_folder_that_is_none_cannot_be_mounted(installed, tmp_path):
    with pytest.raises(UserError, match="is not a folder"):
        installed.mount(tmp_path / "gone")


def test_a_name_that_nobody_has_is_an_import_error(installed):
    for name in ("tvm.relay.nonsense", "tvm.nonsense", "tvm.relay.op.contrib.nonsense"):
        with pytest.raises(ModuleNotFoundError, match="nonsense"):
            importlib.import_module(name)
    with pytest.raises(ImportError):
        from tvm.relay import nonsense  # noqa: F401


def test_what_is_below_the_graph_can_be_imported_and_raises_when_used(installed):
    import tvm
    from tvm import te
    from tvm.topi import nn

    assert not isinstance(3, te.Tensor)
    for use in (lambda: te.placeholder((1,)), lambda: nn.conv2d.nchw(1), lambda: tvm.build(None), lambda: te.x["a"]):
        with pytest.raises(tvm.TVMError, match="which byoc does not have"):
            use()
    with pytest.raises(NotImplementedError, match="tvm.te.Tensor"):

        class Mine(te.Tensor):
            pass


def test_a_script_runs_with_its_arguments(tmp_path):
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    script = tmp_path / "script.py"
    lines = ["import sys, tvm, beside", "from tvm import relay", "print(sys.argv[1:], beside.WORD, relay.__name__)"]
    script.write_text("\n".join(lines))
    done = run(script, "a", "-b")
    assert (done.returncode, done.stdout) == (0, "['a', '-b'] beside byoc.relay\n"), done.stderr


THEIR_TESTS = """
import pytest
import tvm
import tvm.testing
from tvm import relay

shape, dtype = tvm.testing.parameters(((2, 3), "float32"), ((4,), "int32"))
times = tvm.testing.parameter(1, 2)
COMPUTED = []


@tvm.testing.fixture(cache_return_value=True)
def expected(times):
    COMPUTED.append(times)
    return [times]


def test_pairs(shape, dtype, times):
    assert (shape, dtype) in [((2, 3), "float32"), ((4,), "int32")] and times in (1, 2)


@pytest.mark.parametrize("turn", [0, 1])
def test_a_cached_value_is_a_copy(expected, times, turn):
    assert expected == [times] and COMPUTED.count(times) == 1
    expected.append(turn)


@tvm.testing.parametrize_targets("llvm -device=arm_cpu", "cuda")
def test_named_targets(target, dev):
    assert (target, dev) == ("llvm -device=arm_cpu", tvm.cpu(0))


@tvm.testing.parametrize_targets
@tvm.testing.uses_gpu
def test_enabled_targets(target, dev):
    assert (target, dev) == tvm.testing.enabled_targets()[0]


def test_device_alone(dev):
    assert dev == tvm.cpu(0)


@tvm.testing.known_failing_targets("llvm")
def test_known_to_fail(target):
    raise AssertionError(target)


@tvm.testing.exclude_targets("cuda")
def test_not_excluded(target):
    assert target == "llvm"


@tvm.testing.requires_cuda
def test_never():
    raise AssertionError


@tvm.testing.requires_package("no_such_package")
def test_never_either():
    raise AssertionError


@tvm.testing.requires_gpu()
@tvm.testing.requires_llvm
@tvm.testing.skip_if_32bit(reason="large tensors")
def test_nor_this():
    raise AssertionError


@pytest.mark.parametrize("needed", [pytest.param(1, marks=tvm.testing.requires_vulkan.marks()), 2])
def test_marked_parameters(needed):
    assert needed == 2


class TestOfAClass:
    left, right = tvm.testing.parameters((1, 2), (3, 4), ids=["first", "second"])
    size = tvm.testing.parameter(by_dict={"small": 1, "large": 10})

    @tvm.testing.fixture
    def total(self, left, size):
        return left + size

    @tvm.testing.fixture(cache_return_value=True)
    def doubled(self, left):
        return 2 * left

    def test_total(self, left, right, size, total, doubled):
        assert total == left + size and right == left + 1 and doubled == 2 * left


if __name__ == "__main__":
    tvm.testing.main()
"""


def test_pytest_runs_under_it_with_the_fixtures_of_tvm(tmp_path):
    (tmp_path / "test_theirs.py").write_text(THEIR_TESTS)
    done = run("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", tmp_path, folder=tmp_path)
    assert "17 passed, 5 skipped, 1 xfailed" in done.stdout, done.stdout + done.stderr


def test_a_file_of_tests_runs_as_a_script(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tvm.testing.plugin"]\n')
    (tmp_path / "test_theirs.py").write_text(THEIR_TESTS)
    done = run(tmp_path / "test_theirs.py", "-q", "-p", "no:cacheprovider", "-k", "pairs", folder=tmp_path)
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout + done.stderr


def test_a_missing_script_is_one_sentence(tmp_path):
    done = run(tmp_path / "gone.py")
    assert done.returncode == 2 and "is not a file" in done.stderr and "Traceback" not in done.stderr
    assert run().returncode == 2


def test_a_mounted_module_is_before_ours_of_the_same_name_but_the_registry_is_ours(tmp_path):
    folder = tmp_path / "vendors"
    folder.mkdir()
    (folder / "dnnl.py").write_text("from .register import register_pattern_table\nWHOSE = 'theirs'\n")
    (folder / "tensorrt.py").write_text("def partition_for_tensorrt(mod):\n    return 'theirs'\n")
    (folder / "register.py").write_text("raise AssertionError\n")
    lines = [
        "import importlib",
        "from tvm.relay.op.contrib import dnnl, register, tensorrt",
        "assert importlib.import_module('tvm.relay.op.contrib.dnnl') is dnnl",
        "assert dnnl.register_pattern_table is register.register_pattern_table",
        "print(dnnl.WHOSE, tensorrt.partition_for_tensorrt(1), register.__name__)",
    ]
    (tmp_path / "script.py").write_text("\n".join(lines))
    done = run("--mount", folder, tmp_path / "script.py")
    assert done.stdout == "theirs theirs byoc.relay.op.contrib.register\n", done.stderr


def test_integrations_of_others_can_be_imported_and_say_what_to_do(installed):
    import tvm
    from tvm.relay.op.contrib import arm_compute_lib, partition_for_arm_compute_lib, partition_for_tensorrt, tensorrt

    assert arm_compute_lib.is_arm_compute_runtime_enabled() is False
    assert tensorrt.is_tensorrt_compiler_enabled() is False and tensorrt.is_tensorrt_runtime_enabled() is False
    for use in (partition_for_tensorrt, partition_for_arm_compute_lib, tensorrt.get_tensorrt_target):
        with pytest.raises(tvm.TVMError, match="mount the folder of that integration"):
            use(None)
    tvm.register_func("relay.op.is_arm_compute_runtime_enabled", lambda: True)
    assert tvm.relay.op.contrib.is_arm_compute_runtime_enabled() is True
