"""``tools.architectures`` without PyTorch: how configurations are made small, how results are compared and reported."""

import numpy as np
import pytest

from tools.architectures.page import page
from tools.architectures.shrink import Shrink, shrunk

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
    failed = finding("ONNX Runtime failed", "no")
    rows = [
        {"name": "a", "model": "AModel", "not_exported": {}, "fixed": finding("agrees"), "free": slow},
        {"name": "b", "model": "BModel", "not_exported": {}, "fixed": finding("agrees"), "free": refused},
        {"name": "c", "model": "CModel", "not_exported": {"free": "E: no"}, "fixed": failed},
        {"name": "d", "model": "DModel", "not_made": "no inputs"},
        {"name": "e", "model": "EModel", "lost": "stopped after 240 s"},
    ]
    text = page({row["name"]: row for row in rows}, 9)
    assert "5 architectures of 9 were tried" in text and "of 3 a tiny model was made, of 2 none" in text
    assert "| fixed | 2 | 2 |  |  |  | 100.0 |" in text and "| free | 2 | 1 |  | 1 |  | 50.0 |" in text
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
