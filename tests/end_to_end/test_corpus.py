"""Cases that once went wrong, on every backend, in this process and from the artefact in another.

A file is what ``python -m fuzz reduce --corpus`` writes; what is wanted of it is computed anew by ONNX Runtime.
"""

from __future__ import annotations

import pathlib
from dataclasses import replace

import pytest

from fuzz.case import Case
from fuzz.configurations import BACKENDS, alone
from fuzz.execute import REFUSED, execute
from fuzz.judge.compare import Judge
from fuzz.judge.oracle import wanted
from fuzz.loader import LoaderProcess

CORPUS = sorted((pathlib.Path(__file__).parents[1] / "corpus").glob("*.json"))
NEWER = {"mean_of_one_dequantized_number"}
"""ONNX Runtime 1.23 refuses LayerNormalization over one element, of which ONNX's reference gives 0."""
pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_opencl, pytest.mark.optimized]


@pytest.fixture(scope="module")
def loader():
    process = LoaderProcess()
    yield process
    process.close()


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, id=p.stem, marks=pytest.mark.newer_onnxruntime if p.stem in NEWER else ()) for p in CORPUS],
)
def test_a_case_of_the_corpus_is_right_on_every_backend(path, loader, tmp_path):
    case = Case.read(path)
    judges = [
        Judge(case.model, feeds, want) for feeds, want in zip(case.feeds, wanted(case.model, case.feeds), strict=True)
    ]
    for backend in BACKENDS:
        for configuration in (alone(backend), replace(alone(backend), saved=True, threads=2)):
            outcome = execute(case, configuration, judges, loader, tmp_path)
            assert not outcome.is_bad and outcome.verdict != REFUSED, f"{configuration.name}: {outcome}"


def test_the_corpus_is_there():
    assert CORPUS
