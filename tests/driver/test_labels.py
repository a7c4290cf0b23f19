"""Labels of a library: in its report, its artefact, and what `byoc inspect` prints; nothing else of it changes."""

import json
import pathlib

import numpy as np
import pytest

import byoc
from byoc.cli.main import main
from byoc.errors import UserError
from byoc.runtime import load

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


@pytest.mark.needs_cc
def test_labels_are_kept_with_the_artefact_and_printed(tmp_path, capsys):
    plain = byoc.compile(DIGITS)
    library = byoc.compile(DIGITS, labels={"version": "3", "made by": "night build"})
    assert library.report["labels"] == {"version": "3", "made by": "night build"} and "labels" not in plain.report
    path = library.save(tmp_path / "digits.byoc")
    loaded = load(path)
    assert loaded.report["labels"] == library.report["labels"]
    image = np.zeros([1, 1, 8, 8], "float32")
    np.testing.assert_array_equal(loaded(image), plain(image))
    capsys.readouterr()
    assert main(["inspect", str(path)]) == 0
    assert "label version: 3\nlabel made by: night build\n" in capsys.readouterr().out


@pytest.mark.needs_cc
def test_labels_are_given_on_the_command_line(tmp_path, capsys):
    path = tmp_path / "digits.byoc"
    assert main(["compile", str(DIGITS), "--label", "version=3", "--label", "note=a=b", "-o", str(path)]) == 0
    capsys.readouterr()
    assert load(path).report["labels"] == {"version": "3", "note": "a=b"}
    assert main(["compile", str(DIGITS), "--label", "version", "-o", str(path)]) == 2
    assert "--label 'version': expected NAME=TEXT" in capsys.readouterr().err
    assert json.loads(json.dumps(load(path).report["labels"])) == {"version": "3", "note": "a=b"}


@pytest.mark.needs_cc
def test_labels_that_are_no_texts_are_refused():
    with pytest.raises(UserError, match=r"labels are texts by names, got \{'version': 3\}"):
        byoc.compile(DIGITS, labels={"version": 3})
