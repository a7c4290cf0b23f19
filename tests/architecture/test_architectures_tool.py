"""``tools.architectures`` without PyTorch: how configurations are made small, how results are compared and reported."""

import numpy as np
import onnx.parser
import pytest

from tools.architectures.page import page
from tools.architectures.shrink import Shrink, shrunk
from tools.health.sources import ROOT

SMALL = Shrink(factor=16, layers=2, side=True)


def test_widths_are_divided_together_and_counts_are_cut():
    settings = {
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "vocab_size": 30522,
        "eos_token_id": 30000,
        "patch_size": 16,
        "image_size": 224,
        "depths": [2, 2, 18, 2],
        "text_config": {"d_model": 512, "num_key_value_heads": 4},
    }
    found = shrunk(settings, SMALL)
    assert found["hidden_size"] == 48 and found["intermediate_size"] == 192 and found["num_attention_heads"] == 12
    assert found["num_hidden_layers"] == 2 and found["depths"] == [2, 2, 2, 2] and found["vocab_size"] == 512
    assert found["eos_token_id"] < 512 and found["patch_size"] == 16 and found["image_size"] == 64
    assert found["text_config"] == {"d_model": 32, "num_key_value_heads": 4}


def test_a_layer_of_each_kind_is_kept():
    kinds = ["linear", "linear", "linear", "full"] * 3
    found = shrunk({"num_hidden_layers": 12, "layer_types": kinds, "rope": [True, True, True, False] * 3}, SMALL)
    assert found == {"num_hidden_layers": 2, "layer_types": ["linear", "full"], "rope": [True, False]}


def test_what_a_default_leaves_open_is_filled():
    found = shrunk({"hidden_size": 512, "num_attention_heads": 8, "head_dim": None}, SMALL)
    assert found == {"hidden_size": 32, "num_attention_heads": 8, "head_dim": 4}


def finding(verdict, reason="", on_numpy=()):
    return {"verdict": verdict, "reason": reason, "error": 0.0, "sizes": 1, "on_numpy": list(on_numpy)}


def test_the_page_counts_what_byoc_answers_for(monkeypatch):
    monkeypatch.setattr("tools.architectures.page.version", lambda name: "1.0")
    slow = finding("agrees", "", ["f: topk has no tensor expression"])
    refused = finding("refused", "node x: a | b")
    chosen = finding("agrees, its choices given", "output 0")
    failed = finding("ONNX Runtime failed", "no")
    rows = [
        {"name": "a", "model": "AModel", "not_exported": {}, "fixed": finding("agrees"), "free": slow},
        {"name": "b", "model": "BModel", "not_exported": {}, "fixed": finding("agrees"), "free": refused},
        {"name": "c", "model": "CModel", "not_exported": {"free": "E: no"}, "fixed": failed},
        {"name": "d", "model": "DModel", "not_made": "no inputs"},
        {"name": "e", "model": "EModel", "lost": "stopped after 240 s", "free": chosen},
    ]
    text = page({row["name"]: row for row in rows}, 9)
    assert "5 architectures of 9 were tried" in text and "of 3 a tiny model was made, of 2 none" in text
    assert "| fixed | 2 | 2 |  |  |  |  |  |  | 100.0 |" in text
    assert "| free | 3 | 1 | 1 |  |  |  | 1 |  | 33.3 |" in text
    assert "| `EModel` | free | agrees, its choices given | output 0 |" in text
    assert "| `BModel` | free | refused | node x: a \\| b |" in text
    assert "| `CModel` | free: E: no; fixed: ONNX Runtime: no |" in text and "| `DModel` | no inputs |" in text
    assert text.endswith("`AModel`.\n") and "`topk` (1)" in text


def test_outputs_are_held_to_a_share_of_their_range():
    judge = pytest.importorskip("tools.architectures.judge", exc_type=ImportError)
    found, want = judge.Finding(judge.AGREES), np.array([-4.0, 4.0, np.nan])
    judge.compare([want + np.array([0, 4e-4, 0])], [want], found)
    assert found.verdict == judge.AGREES and found.error == pytest.approx(5e-5)
    judge.compare([want + np.array([0, 4e-3, 0])], [want], found)
    assert found.verdict == judge.DIFFERS and "of its range off" in found.reason
    assert judge.distance(np.array([np.nan, 1.0]), np.array([0.0, 1.0])) == float("inf")
    shapes = judge.Finding(judge.AGREES)
    judge.compare([np.zeros((2, 1))], [np.zeros((1, 2))], shapes)
    assert shapes.verdict == judge.DIFFERS


def saved(tmp_path, text, feeds):
    """A model of a text in a file, and files of its inputs."""
    path = tmp_path / "free.onnx"
    onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 19]>\n' + text), path)
    inputs = [tmp_path / f"free.{k}.npz" for k in range(len(feeds))]
    for target, feed in zip(inputs, feeds, strict=True):
        np.savez(target, **feed)
    return path, inputs


CHOOSING = """g (float[N] x) => (float[] y, float[] s) <int64[1] two = {2}> {
    s = Tanh (x)
    values, places = TopK (s, two)
    y = Gather (x, places)
}"""
DRAWING = """g (float[N] x) => (float[] y, float[] z) {
    z = Exp (x)
    noise = RandomNormalLike (z)
    y = Add (z, noise)
}"""
CANCELLING = """g (float[N] x) => (float[] y) <float big = {4194304.0}> {
    far = Add (x, big)
    y = Sub (far, big)
}"""


@pytest.mark.needs_cc
@pytest.mark.parametrize("right", [True, False])
def test_what_a_model_chooses_and_draws_is_given_to_both(monkeypatch, tmp_path, right):
    judge = pytest.importorskip("tools.architectures.judge", exc_type=ImportError)
    nearly = np.array([0.3, 0.30000003, 0.1], "float32")
    feeds = [{"x": nearly}, {"x": np.array([1.0, 2.0, 3.0, 4.0], "float32")}]
    compiled = judge.byoc.compile

    class Otherwise:
        """A library whose scores are rounded otherwise, so that the whole model chooses otherwise."""

        def __init__(self, path, **options):
            self.library, self.report = compiled(path, **options), {}
            self.chooses = any(n.op_type == "TopK" for n in onnx.load(path).graph.node)

        def run(self, feed):
            y, s, *rest = self.library.run(feed)
            return [np.asarray(y)[::-1] * 2 if self.chooses else y, np.asarray(s) * (1 if right else 2), *rest]

    monkeypatch.setattr(judge.byoc, "compile", Otherwise)
    path, inputs = saved(tmp_path, CHOOSING, feeds)
    found = judge.judge(path, inputs)
    assert found.verdict == (judge.CHOSEN if right else judge.DIFFERS) and "of its range off" in found.reason
    monkeypatch.setattr(judge.byoc, "compile", compiled)
    path, inputs = saved(tmp_path, DRAWING, feeds)
    found = judge.judge(path, inputs)
    assert found.verdict == judge.DRAWN and "output 0" in found.reason and found.sizes == 2
    assert "differing" not in found.row()


@pytest.mark.needs_cc
@pytest.mark.parametrize(("off", "verdict"), [(0.5, "ill conditioned"), (400.0, "differs")])
def test_what_rounding_moves_as_far_is_ill_conditioned(monkeypatch, tmp_path, off, verdict):
    judge = pytest.importorskip("tools.architectures.judge", exc_type=ImportError)
    compiled = judge.byoc.compile

    class Off:
        def __init__(self, path, **options):
            self.library, self.report = compiled(path, **options), {}

        def run(self, feed):
            return [np.asarray(self.library.run(feed)[0]) + np.float32(off)]

    monkeypatch.setattr(judge.byoc, "compile", Off)
    path, inputs = saved(tmp_path, CANCELLING, [{"x": np.array([1.0, 2.0, 3.0], "float32")}])
    assert judge.judge(path, inputs).verdict == verdict


def test_functions_on_numpy_kernels_are_told_of_every_part():
    judge = pytest.importorskip("tools.architectures.judge", exc_type=ImportError)
    part = {"host_fallbacks": {"g": "why"}}
    report = {"host_fallbacks": {"f": "why"}, "control_flow": [{"parts": {"a": part, "b": {"control_flow": [part]}}}]}
    assert judge.on_numpy(report) == ["f: why", "g: why", "g: why"]


@pytest.mark.parametrize("sizes", ["fixed", "free"])
def test_of_what_the_documentation_lists_97_in_a_hundred_agree(sizes):
    text = (ROOT / "docs/support/architectures.md").read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith(f"| {sizes} | ") and line.count("|") == 11)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    exported, agree, differ = int(cells[1]), int(cells[2]), int(cells[6] or 0)
    assert exported > 400 and agree >= 0.97 * exported and not differ
    assert float(cells[-1]) == pytest.approx(100 * agree / exported, abs=0.05)
