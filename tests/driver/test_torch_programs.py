"""PyTorch's ways in: exported programs, their files, and ``torch.compile(backend="byoc")``, with the real package."""

import pathlib
import re
import sys
import warnings

import numpy as np
import pytest

import byoc
from byoc.cli.main import main
from byoc.driver.model import is_torch_program
from byoc.errors import ImportModelError, UnavailableError

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guides" / "pytorch.md"


@pytest.fixture
def torch():
    pytest.importorskip("onnxscript", reason="PyTorch's exporter to ONNX needs onnxscript")
    module = pytest.importorskip("torch", reason="PyTorch is not installed")
    module.manual_seed(0)
    module._dynamo.reset()
    return module


@pytest.fixture
def network(torch):
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(8 * 36, 4), torch.nn.Softmax(-1)).eval()


@pytest.fixture
def images(torch):
    return torch.randn(2, 3, 8, 8)


def same(found, wanted):
    np.testing.assert_allclose(np.asarray(found), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_what_is_a_program_is_known_without_pytorch():
    assert is_torch_program("m.pt2") and not is_torch_program("m.onnx") and not is_torch_program(b"")


def test_without_pytorch_a_program_says_what_is_missing(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        UnavailableError, match="m.pt2: an exported program needs PyTorch.*pip install torch onnxscript"
    ):
        byoc.plan(tmp_path / "m.pt2")
    assert main(["lint", str(tmp_path / "m.pt2")]) == 3
    assert "pip install torch onnxscript" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.needs_cc
def test_an_exported_program_is_a_model_with_its_free_sizes(torch, network, images, tmp_path, capsys):
    free = {"input": {0: torch.export.Dim("n", min=1, max=64)}}
    program = torch.export.export(network, (images,), dynamic_shapes=free)
    library = byoc.compile(program)
    for count in (1, 2, 5):
        batch = torch.randn(count, 3, 8, 8)
        same(library(batch.numpy()), network(batch))
    path = tmp_path / "m.pt2"
    torch.export.save(program, path)
    same(byoc.compile(path)(images.numpy()), network(images))
    assert main(["compile", str(path), "-o", str(tmp_path / "m.byoc")]) == 0
    same(byoc.load(tmp_path / "m.byoc")(images.numpy()), network(images))
    assert main(["opt", str(path), "-o", str(tmp_path / "m.onnx")]) == 0
    same(byoc.compile(tmp_path / "m.onnx")(images.numpy()), network(images))
    (size,) = byoc.lint(path).free_sizes
    assert main(["inspect", str(path)]) == main(["run", str(path), "--random", "--size", f"{size}=3"]) == 0
    assert main(["lint", str(path)]) == 0
    assert "the model compiles" in capsys.readouterr().out


@pytest.mark.slow
def test_a_program_that_changes_what_it_is_given_is_refused(torch):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count.add_(1)
            return x + self.count

    with pytest.raises(ImportModelError, match="it changes its inputs or buffers"):
        byoc.plan(torch.export.export(Counting(), (torch.zeros(3),)))


@pytest.mark.slow
def test_a_file_that_is_no_program_is_said(torch, tmp_path):
    (tmp_path / "m.pt2").write_bytes(b"nothing")
    with pytest.raises(ImportModelError, match="m.pt2: is not a program saved by torch.export"):
        byoc.plan(tmp_path / "m.pt2")
    with pytest.raises(ImportModelError, match="none.pt2: there is no such file"):
        byoc.plan(tmp_path / "none.pt2")


def without_warnings(model, *inputs):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="byoc leaves")
        return model(*inputs)


@pytest.mark.slow
@pytest.mark.needs_cc
def test_a_compiled_model_runs_as_byocs_libraries_for_each_shape(torch, network, images):
    compiled = torch.compile(network, backend="byoc")
    with torch.no_grad():
        kept = without_warnings(compiled, images)
        wanted = network(images)
        same(kept, wanted)
        for count in (1, 3, 5):
            batch = torch.randn(count, 3, 8, 8)
            same(without_warnings(compiled, batch), network(batch))
        same(kept, wanted)  # the outputs of one run are not the memory of the next


@pytest.mark.slow
@pytest.mark.needs_cc
def test_weights_that_change_are_taken_anew(torch, network, images):
    compiled = torch.compile(network, backend="byoc")
    with torch.no_grad():
        before = without_warnings(compiled, images).clone()
        network[4].weight.mul_(3)
        after = without_warnings(compiled, images)
        same(after, network(images))
    assert float((before - after).abs().max()) > 1e-3


@pytest.mark.slow
@pytest.mark.needs_cc
def test_types_that_numpy_does_not_have_go_in_and_come_out(torch):
    layer = torch.nn.Linear(8, 8).bfloat16().eval()
    given = torch.randn(2, 8).bfloat16()
    fast = torch.compile(layer, backend="byoc")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # that byoc leaves the graph to PyTorch
        found, wanted = fast(given), layer(given)
        single = torch.compile(lambda x: x.sum() * 2, backend="byoc")(given)
    assert found.dtype == torch.bfloat16 and single.dtype == torch.bfloat16 and single.shape == ()
    np.testing.assert_allclose(found.float().numpy(), wanted.float().numpy(), rtol=2**-7, atol=2**-7)


@pytest.mark.slow
@pytest.mark.needs_cc
def test_options_are_those_of_compile_and_several_outputs_come_in_order(torch):
    def function(x, y):
        return x @ y, torch.relu(x) + 1

    x, y = torch.randn(3, 4), torch.randn(4, 5)
    compiled = torch.compile(function, backend="byoc", options={"targets": ["json", "c"]})
    for found, wanted in zip(without_warnings(compiled, x, y), function(x, y), strict=True):
        same(found, wanted)


@pytest.mark.slow
def test_what_byoc_does_not_take_pytorch_runs_with_a_warning(torch, network, images):
    compiled = torch.compile(network, backend="byoc")
    with pytest.warns(UserWarning, match="byoc leaves a graph to PyTorch: it needs gradients"):
        compiled(images).sum().backward()
    assert network[0].weight.grad is not None

    def changes(x):
        x.add_(1)
        return x * 2

    torch._dynamo.reset()
    x = torch.zeros(3)
    with pytest.warns(UserWarning, match="it changes its inputs or buffers"):
        found = torch.compile(changes, backend="byoc")(x)
    assert found.tolist() == [2, 2, 2] and x.tolist() == [1, 1, 1]


@pytest.mark.slow
@pytest.mark.needs_cc
def test_the_examples_of_the_guide_run(torch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```py\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names = {}
    for block in blocks:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="byoc leaves")
            exec(block, names)
    assert len(blocks) == 2 and (tmp_path / "model.pt2").exists()
    with torch.inference_mode():
        x = torch.randn(2, 8)
        same(without_warnings(names["fast"], x), names["model"](x))
