"""Tests here share backends that are no tests themselves, and an artefact."""

import pathlib
import sys

import pytest

import byoc

sys.path.append(str(pathlib.Path(__file__).parent))
sys.path.append(str(pathlib.Path(__file__).parents[1] / "contrib"))

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="session")
def artifact(tmp_path_factory):
    """The digit classifier cut over JSON and the host, saved."""
    library = byoc.compile(DIGITS, targets=["json", "c"], exclude=["nn.softmax", "nn.max_pool2d"])
    return library.save(tmp_path_factory.mktemp("artifact") / "digits.byoc")
