"""What tests need of the machine, looked up once; a test that cannot run is skipped aloud."""

import contextlib
import functools
import gc
import os
import pathlib

import hypothesis
import numpy as np
import pytest

hypothesis.settings.register_profile("byoc", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("byoc")

# every pass of every test, and of the processes that tests start, is verified (byoc.ir.passes.verification)
os.environ.setdefault("BYOC_VERIFY", "1")

# NumPy's products wait in threads of their own as soon as it is imported: not in workers and processes side by side
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# hundreds of processes that tests start import all of byoc: they share compiled modules, outside of the sources
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    os.environ["PYTHONPYCACHEPREFIX"] = str(pathlib.Path(__file__).parents[1] / ".pytest_cache" / "pycache")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew instead of comparing")


@functools.cache
def missing_compiler():
    from byoc.codegen.c.toolchain.compiler import find_compiler
    from byoc.errors import CompilerNotFoundError

    try:
        find_compiler()
    except CompilerNotFoundError as error:
        return str(error)
    return None


@functools.cache
def missing_device():
    from byoc.contract import get_backend

    return get_backend("opencl").unavailable()


@functools.cache
def missing_judge():
    import onnxruntime

    release = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
    if release < (1, 24):
        return f"ONNX Runtime {onnxruntime.__version__} has not all that is compared; the last for Python 3.10 is 1.23"
    return None


STATES: dict[str, dict] = {}
"""Of each module with a generator `RNG`, the generator's state once the module was imported."""


def draw_the_same_in_any_order(item):
    """A test's random numbers are its own: not those left by whatever tests ran before it in this worker."""
    module = getattr(item, "module", None)
    generator = getattr(module, "RNG", None)
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = STATES.setdefault(module.__name__, generator.bit_generator.state)


def pytest_collection_finish():
    """20,000 collected tests live until the end: the garbage collector would walk over them again and again."""
    gc.collect()
    gc.freeze()


ASKED = os.environ.get("BYOC_OPTIMIZATION")  # by whoever runs the tests: then all compile at that level
POCL = {"POCL_EXTRA_BUILD_FLAGS": "-cl-opt-disable", "POCL_WORK_GROUP_METHOD": "loops"}  # without LLVM's optimizations


def compile_in_less_time(item):
    """Compilers take longer than the code that they make: at low levels GCC and PoCL take half the time or less.

    Tests that are marked ``optimized``, and all where a level is asked for, compile as users do.
    """
    level = os.environ["BYOC_OPTIMIZATION"] = ASKED or ("3" if item.get_closest_marker("optimized") else "1")
    for name, value in POCL.items():
        if level != "3":
            os.environ[name] = value
        else:
            os.environ.pop(name, None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    draw_the_same_in_any_order(item)
    compile_in_less_time(item)
    needs = {"needs_cc": missing_compiler, "needs_opencl": missing_device, "newer_onnxruntime": missing_judge}
    for marker, missing in needs.items():
        if item.get_closest_marker(marker) and missing():
            pytest.skip(f"{marker}: {missing()}")


def pytest_collection_modifyitems(items):
    """Notebooks and README first: a test of minutes that starts last keeps the other workers waiting."""
    items.sort(key=lambda item: item.path.parent.name != "tutorials")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory, worker_id="master"):
    """Compiled code of a test run goes to one folder of the run, not to the user's cache."""
    if "BYOC_CACHE_DIR" not in os.environ:
        base = pathlib.Path(tmp_path_factory.getbasetemp())
        root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
        os.environ["BYOC_CACHE_DIR"] = str(root / "byoc-cache")


@contextlib.contextmanager
def registered_within():
    """Forget what is registered inside: backends, kernels and their tables, loaders of modules, and which files
    brought them.

    What byoc brings stays.
    """
    from byoc.contract import BACKENDS, importing
    from byoc.ir.registry import GLOBAL_FUNCTIONS
    from byoc.partition.places.kernel import KERNELS
    from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
    from byoc.runtime.json.table import TABLES
    from byoc.runtime.modules.module import LOADERS

    before = {id(r): set(r) for r in (BACKENDS, TABLES, LOADERS)}
    named = set(importing._NAMED)
    kernels = {k.key for k in KERNELS}
    try:
        yield
    finally:
        new = {id(r): set(r) - before[id(r)] for r in (BACKENDS, TABLES, LOADERS)}
        for name in (n for n in new[id(BACKENDS)] if not type(BACKENDS[n]).__module__.startswith("byoc.")):
            for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
                registry.unregister(name)
            for key in (f"relay.ext.{name}", f"relay.ext.{name}.optimize"):
                if key in GLOBAL_FUNCTIONS:
                    GLOBAL_FUNCTIONS.unregister(key)
        tests = os.path.dirname(os.path.realpath(__file__))
        root = os.path.dirname(tests)
        product = tuple(os.path.join(root, folder, "") for folder in ("byoc", "codegen", "runtime", "contrib"))
        for kernel in [k for k in KERNELS if k.key not in kernels and not k.where.startswith(product)]:
            KERNELS.remove(kernel)
        for name in (n for n in new[id(TABLES)] if TABLES[n].source.startswith(tests)):
            del TABLES[name]
        for name in (n for n in new[id(LOADERS)] if not _place(LOADERS[n]).startswith("byoc.")):
            del LOADERS[name]
        for name in set(importing._NAMED) - named:
            del importing._NAMED[name]


def _place(loader):
    """The module of a runtime module's class, which may be there by its name alone."""
    return loader if isinstance(loader, str) else loader.__module__


@pytest.fixture(scope="module")
def of_this_module():
    """What the tests of a module register is forgotten when they are over."""
    with registered_within():
        yield


@pytest.fixture
def of_this_test():
    """What a test registers is forgotten when it is over."""
    with registered_within():
        yield


@pytest.fixture
def golden(request):
    """``golden(name, text)`` compares with ``tests/golden/name``, or writes it with ``--update-golden``."""
    folder = pathlib.Path(__file__).parent / "golden"

    def check(name, text):
        path = folder / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.is_file(), f"{path} is missing: run pytest with --update-golden and read what it writes"
        assert text == path.read_text(), f"{path} differs: run pytest with --update-golden and read the difference"

    return check


def _sums_bytes_exactly() -> bool:
    """Whether ONNX Runtime's products of bytes are those of the standard on this processor."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(np.full((64, 32), 127, "int8"), "b")
    a = helper.make_tensor_value_info("a", TensorProto.UINT8, [4, 64])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, [4, 32])
    graph = helper.make_graph([helper.make_node("MatMulInteger", ["a", "b"], ["y"])], "g", [a], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return bool(np.all(session.run(None, {"a": np.full((4, 64), 255, "uint8")})[0] == 255 * 127 * 64))


@pytest.fixture(scope="session")
def exact_bytes() -> None:
    """Skips where ONNX Runtime is no reference for products of bytes."""
    pytest.importorskip("onnxruntime")
    if not _sums_bytes_exactly():
        pytest.skip("ONNX Runtime saturates sums of products of bytes at 16 bits on this processor")
