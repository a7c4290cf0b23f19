"""byoc without a part of it, as an installation may leave it out: the rest compiles and runs, and the part is named."""

import os
import subprocess
import sys

import pytest
from onnx import TensorProto, helper

from tools.health.sources import ROOT

DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
PARTS = {
    "opencl": ("codegen/opencl", "runtime/opencl"),
    "json": ("codegen/json", "runtime/json"),
    "contrib": ("contrib",),
}
# the packages of this repository are found by a finder of its own where it is installed to be edited
ALONE = """
import sys
sys.meta_path[:] = [f for f in sys.meta_path if not getattr(f, "__module__", "").startswith("__editable__")]
import byoc, pathlib
assert pathlib.Path(byoc.__file__).parents[1] == pathlib.Path({tree!r}), byoc.__file__
"""
COMMAND = "from byoc.cli.main import main\nsys.exit(main({words!r}))\n"


def linked(source, place, without):
    """A package as links to its parts; those in *without* stay away."""
    place.mkdir(parents=True)
    for entry in source.iterdir():
        inside = [rest.partition("/")[2] for rest in without if rest.partition("/")[0] == entry.name]
        if "" not in inside and entry.name != "__pycache__":
            linked(entry, place / entry.name, inside) if inside else (place / entry.name).symlink_to(entry)


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """Where the copies of the package lie, one for each part: compiled modules are found again by their place."""
    return tmp_path_factory.mktemp("trees")


class Installation:
    """A copy of the package without *part*, whose commands run in *folder*."""

    def __init__(self, trees, folder, part):
        self.folder, self.tree = folder, trees / part
        if self.tree.exists():
            return
        linked(ROOT / "byoc", self.tree / "byoc", ())
        for name in ("codegen", "runtime", "contrib"):
            without = [left.partition("/")[2] for left in PARTS[part] if left.partition("/")[0] == name]
            if "" not in without:
                linked(ROOT / name, self.tree / "byoc" / name, without)

    def python(self, code):
        environment = {**os.environ, "PYTHONPATH": str(self.tree)}
        words = [sys.executable, "-c", ALONE.format(tree=str(self.tree)) + code]
        return subprocess.run(words, cwd=self.folder, env=environment, capture_output=True, text=True)

    def byoc(self, *words):
        return self.python(COMMAND.format(words=list(words)))


# the others by default: test_opencl_works_without_json, and byoc.contrib by its name below
@pytest.fixture(params=[pytest.param(p, marks=[pytest.mark.slow] if p != "opencl" else []) for p in sorted(PARTS)])
def part(request):
    return request.param


@pytest.fixture
def installation(part, trees, tmp_path):
    return Installation(trees, tmp_path, part)


@pytest.mark.needs_cc
def test_the_rest_compiles_and_runs_without_a_part(installation, part):
    target = {"opencl": "json,c", "json": "c", "contrib": "c"}[part]
    done = installation.byoc("compile", str(DIGITS), "-t", target, "-o", "d.byoc")
    assert done.returncode == 0, done.stderr
    done = installation.byoc("run", "d.byoc", "--random", "--size", "batch=2")
    assert done.returncode == 0 and "probabilities: float32[2, 10]" in done.stdout, done.stderr
    done = installation.byoc("plan", str(DIGITS), "-t", "c", "--policy", "cost", "--costs", "typical")
    assert done.returncode == 0, done.stderr


@pytest.mark.needs_cc
@pytest.mark.needs_opencl
def test_opencl_works_without_json(trees, tmp_path):
    installation = Installation(trees, tmp_path, "json")
    done = installation.byoc("compile", str(DIGITS), "-t", "opencl,c", "-o", "d.byoc")
    assert done.returncode == 0 and "targets opencl: 1 regions" in done.stdout, done.stderr
    done = installation.byoc("run", "d.byoc", "--random")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "part, missing",
    [
        ("opencl", "opencl"),
        pytest.param("json", "json", marks=pytest.mark.slow),
        pytest.param("json", "blas", marks=pytest.mark.slow),
        ("contrib", "blas"),
    ],
)
def test_a_part_that_is_asked_for_is_named(part, missing, trees, tmp_path):
    installation = Installation(trees, tmp_path, part)
    done = installation.byoc("compile", str(DIGITS), "-t", missing)
    place = "byoc.contrib" if part == "contrib" else f"byoc.codegen.{part}"
    sentence = f"the package of backend '{missing}' cannot be imported: ModuleNotFoundError: No module named '{place}'"
    assert done.returncode == 2 and sentence in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    done = installation.byoc("targets")
    states = {words[0]: words[1] for words in map(str.split, done.stdout.splitlines()) if len(words) > 1}
    assert (states[missing], states["c"]) == ("broken", "ready"), done.stdout
    done = installation.byoc("doctor")
    assert "cannot be imported" in done.stdout and done.stderr == ""


@pytest.fixture(scope="module")
def without_opencl(trees, tmp_path_factory):
    """An installation without OpenCL, in whose folder a compiled model lies."""
    installation = Installation(trees, tmp_path_factory.mktemp("work"), "opencl")
    done = installation.byoc("compile", str(DIGITS), "-t", "json", "-o", "d.byoc")
    assert done.returncode == 0, done.stderr
    return installation


@pytest.mark.parametrize("words", [("cache", "list"), ("warm", "d.byoc"), ("run", "d.byoc", "--devices", "cpu")])
def test_a_command_that_needs_a_part_says_so(words, without_opencl):
    done = without_opencl.byoc(*words)
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "byoc is installed without byoc.runtime.opencl, which this needs" in done.stderr


def test_the_help_says_which_part_is_left_out(without_opencl):
    done = without_opencl.byoc("--help")
    assert done.returncode == 0 and "byoc is installed without byoc.runtime.opencl" in done.stdout.replace("\n", " ")


def model_without_code():
    """An operator whose result has as many numbers as its input has different ones."""
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"]),
    ]
    graph = helper.make_graph([helper.make_node("Unique", ["x"], ["y"])], "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_what_needs_the_kernels_of_numpy_says_so(trees, tmp_path):
    installation = Installation(trees, tmp_path, "json")
    (tmp_path / "m.onnx").write_bytes(model_without_code().SerializeToString())
    done = installation.byoc("compile", "m.onnx")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "runs on numpy kernels, since " in done.stderr
    assert "byoc is installed without byoc.codegen.json, which calls them; install byoc whole" in done.stderr


@pytest.mark.needs_cc
@pytest.mark.parametrize("part, target", [("json", "json"), ("opencl", "opencl")])
def test_an_artefact_that_needs_a_part_says_so(part, target, trees, tmp_path):
    if target == "opencl":
        pytest.importorskip("pyopencl")
    import byoc

    try:
        byoc.compile(DIGITS, targets=[target, "c"]).save(tmp_path / "d.byoc")
    except byoc.runtime.DeviceError as error:
        pytest.skip(f"no device to compile for: {error}")
    installation = Installation(trees, tmp_path, part)
    done = installation.byoc("run", "d.byoc", "--random")
    shown = f"modules of type '{target}' cannot be loaded here (No module named 'byoc.runtime.{part}"
    assert done.returncode == 3 and shown in done.stderr and "byoc is installed without that part" in done.stderr
    done = installation.byoc("inspect", "d.byoc")
    assert done.returncode == 0 and f"cannot run here: module 0 ({target}): {shown}" in done.stdout, done.stderr
