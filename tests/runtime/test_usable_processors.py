"""How many processors a process may use: where it may run, and what its control group gives it."""

from __future__ import annotations

import os

import pytest

from byoc.runtime.core import processor


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("9000000 100000", 8),
        ("nonsense", 8),
        ("1 0", 8),
    ],
)
def test_a_limit_of_time_counts_like_fewer_processors(tmp_path, monkeypatch, text, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(processor, "CPU_QUOTA", tmp_path / "cpu.max")
    assert processor.usable_processors() == 8
    (tmp_path / "cpu.max").write_text(f"{text}\n")
    assert processor.usable_processors() == expected
