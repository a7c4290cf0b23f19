"""Every notebook runs from top to bottom and has its outputs; the backend of the tutorial stays within its promise."""

import os
import pathlib
import re
import sys
import types

import nbformat
import numpy as np
import onnx
import pytest
from nbclient import NotebookClient

import byoc
from byoc import relay
from byoc.contract import BACKENDS
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.ir.types import Any, TensorType
from byoc.relay.interpreter import evaluate
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.runtime.modules.module import LOADERS

pytestmark = pytest.mark.optimized

FOLDER = pathlib.Path(__file__).parents[2] / "tutorials"
PATHS = sorted(FOLDER.glob("*.ipynb"))
# one tunes for half a minute, one measures for a quarter: tests/tune and tests/driver/test_profile_opencl.py have the
# parts of the one, docs/guides/plan.md and tests/partition those of the other
# the last certifies a backend with a mistake twice: tests/testing/test_certify.py, tests/debug/test_bisect.py and
# test_compare.py plant mistakes and find them by the same functions
LONG = ("opencl", "where_should_it_run", "wrong_numbers")
SAME_EVERYWHERE = ("quickstart", "bring_your_own_codegen", "int8_npu")  # others measure, or print versions
SAID = {
    "wrong_numbers": (
        "covered: 1 operator or pattern: nn.relu",
        "wrong: 16 cases of nn.dense nn.dense[0] [sample]",
        "first tensor that diverges: node_linear",
        "(True, 0, 16, ",
    )
}
PICTURES = {"quickstart": 1, "bring_your_own_codegen": 0, "where_should_it_run": 2, "wrong_numbers": 0, "int8_npu": 0}
PICTURES |= {"profile_and_cost": 0, "opencl": 3}


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs_of(cell):
    """What a cell shows, as text; a picture as its SVG."""
    data = [o.get("data", {"text/plain": o.get("text", "")}) for o in cell.outputs]
    return [next(d[kind] for kind in ("image/svg+xml", "text/html", "text/plain") if kind in d) for d in data]


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.parametrize(
    "path", [pytest.param(p, marks=[pytest.mark.slow] if p.stem in LONG else [], id=p.stem) for p in PATHS]
)
def test_a_notebook_runs_and_gives_what_is_stored_in_it(path):
    notebook = nbformat.read(path, as_version=4)
    stored = [outputs_of(cell) for cell in code_cells(notebook)]
    where = {"metadata": {"path": FOLDER}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where, coalesce_streams=True).execute()
    if path.stem in SAME_EVERYWHERE:
        assert [outputs_of(cell) for cell in code_cells(notebook)] == stored, "run make notebooks"
    shown = " ".join(" ".join(text for cell in code_cells(notebook) for text in outputs_of(cell)).split())
    assert [text for text in SAID.get(path.stem, ()) if text not in shown] == []


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_a_notebook_is_stored_with_its_outputs_and_pictures(path):
    cells = code_cells(nbformat.read(path, as_version=4))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    shown = [text for cell in cells for text in outputs_of(cell)]
    assert sum(text.startswith("<svg") for text in shown) == PICTURES[path.stem]
    assert [cell.source for cell in cells if "print(" in cell.source and not cell.outputs] == []
    raw = path.read_text(encoding="utf-8")
    assert re.findall(r"(?<![\w.])/(?:home|root|tmp|Users|var|opt)/[^\s\"]*", raw) == []
    assert len(raw) < 400_000


@pytest.mark.slow
@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.skipif("BYOC_ZOO" not in os.environ, reason="set BYOC_ZOO to what benchmarks/models/export_zoo.py wrote")
def test_where_should_it_run_takes_the_zoos_models():
    zoo = pathlib.Path(os.environ["BYOC_ZOO"]).resolve()
    files = {"resnet": "resnet18.onnx", "transformer": "bert.onnx"}
    counts = {k: len(onnx.load(zoo / f, load_external_data=False).graph.node) for k, f in files.items()}
    notebook = nbformat.read(FOLDER / "where_should_it_run.ipynb", as_version=4)
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": FOLDER}}).execute()
    sizes = next(c.outputs[-1]["data"]["text/plain"] for c in notebook.cells if "make_model" in c.source)
    assert sizes == str(counts)


def test_the_backend_of_the_tutorial_is_at_most_80_lines():
    notebook = nbformat.read(FOLDER / "bring_your_own_codegen.ipynb", as_version=4)
    cell = next(c.source for c in notebook.cells if c.cell_type == "code")
    assert "register_backend" in cell
    assert len(cell.splitlines()) <= 80


@pytest.fixture
def tutorials_backend():
    """The backend of the tutorial, registered: its code cell, run as a module of its own."""
    notebook = nbformat.read(FOLDER / "bring_your_own_codegen.ipynb", as_version=4)
    cell = next(c.source for c in notebook.cells if c.cell_type == "code")
    module = types.ModuleType("acme_of_the_tutorial")
    sys.modules[module.__name__] = module
    exec(compile(cell.replace("__main__:", f"{module.__name__}:"), "tutorial", "exec"), module.__dict__)
    yield module
    del sys.modules[module.__name__]
    LOADERS.pop("acme")
    for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
        registry.unregister("acme")
    GLOBAL_FUNCTIONS.unregister("relay.ext.acme")


def regions_of_the_tutorial():
    """What went wrong with it once, and could: outputs, tuples, constants, free sizes, an input that is an output."""
    rng = np.random.default_rng(0)
    weight = relay.const(rng.standard_normal((8, 8)).astype("float32"))
    x, y = relay.var("x", shape=(4, 8)), relay.var("y", shape=(4, 8))
    shared = relay.nn.dense(x, weight)
    yield "two outputs", [x], relay.Tuple([relay.tanh(shared), relay.exp(relay.nn.dense(shared, weight))])
    rectified = relay.nn.relu(relay.add(relay.nn.dense(x, weight), y))
    yield "a composite and its parts", [x, y], relay.Tuple([rectified, shared])
    yield "the outputs of the model", [x], relay.Tuple([shared, relay.add(shared, relay.const(1.0)), shared])
    yield "tuples", [x], relay.TupleGetItem(relay.Tuple([relay.add(x, x), shared]), 1)
    yield "one constant twice", [x], relay.add(relay.nn.dense(shared, weight), relay.nn.dense(x, weight))
    n = relay.var("n", TensorType((Any("n"), 8), "float32"))
    yield "a free size", [n], relay.Tuple([relay.add(relay.nn.dense(n, weight), n), relay.nn.dense(n, weight)])
    yield "broadcast", [x], relay.add(shared, relay.const(np.ones((1, 8), "float32")))


@pytest.mark.needs_cc
@pytest.mark.parametrize("case", list(regions_of_the_tutorial()), ids=lambda case: case[0])
def test_the_backend_of_the_tutorial_computes_every_kind_of_region(case, tutorials_backend, tmp_path, monkeypatch):
    monkeypatch.setenv("BYOC_CHECK", "1")
    _, params, body = case
    mod = relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function(params, body)))
    data = [np.linspace(-1, 1, 32, dtype="float32").reshape(4, 8) + k for k in range(len(params))]
    want = evaluate(mod, data)
    want = want if isinstance(want, (list, tuple)) else [want]
    library = byoc.compile(mod, ["acme", "c"])
    assert any(region.target == "acme" for region in library.module.regions.values())
    inputs = dict(zip((spec.name for spec in library.inputs), data, strict=True))
    loaded = byoc.runtime.load(library.save(tmp_path / "m.byoc"))
    for run in (library.run, library.graph_executor(), loaded.run):
        for got, wanted in zip(run(inputs), want, strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-5)
