"""``byoc export-c`` from the command line: a folder that builds, and one sentence where there can be none."""

import shutil

import onnx
import pytest
from exported import DIGITS, agree, build, make_model, numbers, oracle, run
from onnx import helper

from byoc.cli.main import main

pytestmark = [
    pytest.mark.needs_cc,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed"),
]


def cli(capsys, *argv):
    code = main([str(a) for a in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command_writes_a_folder_and_says_how_to_build_it(capsys, tmp_path):
    folder = tmp_path / "new" / "out"
    code, out, err = cli(
        capsys, "export-c", DIGITS, folder, "--shape", "image=1,1,8,8", "--symbol-prefix", "digits", "--portable"
    )
    assert (code, err) == (0, "")
    assert {p.name for p in folder.iterdir()} == {
        "digits.c",
        "digits.h",
        "digits_weights.c",
        "digits_weights.h",
        "main.c",
        "Makefile",
        "README.txt",
    }
    assert f"build it: make -C {folder}" in out
    build(folder, True)
    image = numbers(1, 1, 8, 8)
    expected = oracle(DIGITS, [image])
    agree(run(folder, [image], expected, "digits").values(), expected)


def sorting():
    node = helper.make_node("NonZero", ["x"], ["y"], name="find_them")
    return make_model([node], [("x", "f4", (4,))], [("y", "i8", (1, "n"))])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "the inputs image[batch, 1, 8, 8] have free dimensions"),
        (["--shape", "image=1,1,8,8", "--portable", "--threads"], "portable C has no threads"),
        (["--shape", "image=1,1,8,8", "--portable", "--march", "x86-64-v3"], "portable C is for any processor"),
        (["--shape", "image=1,1,8,8", "--symbol-prefix", "int"], "symbol 'int' is a reserved word: C or the gen"),
        (["--shape", "image=1,1,8,8", "--symbol-prefix", "main"], "symbol 'main' is a reserved word: C or the gen"),
        (["--shape", "image=1,1,8,8", "--symbol-prefix", "a-b"], "symbol 'a-b' cannot be the name of a C function"),
        (["--shape", "image=1,1,8,8", "--march", "nonsense"], "refused the flags -march=nonsense"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence_and_leaves_nothing(capsys, tmp_path, options, message):
    code, out, err = cli(capsys, "export-c", DIGITS, tmp_path / "out", *options)
    assert (code, out) == (2, "")
    assert message in err and len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_operators_without_generated_c_are_named(capsys, tmp_path):
    onnx.save(sorting(), tmp_path / "m.onnx")
    code, _, err = cli(capsys, "export-c", tmp_path / "m.onnx", tmp_path / "out")
    assert code == 2 and "find_them" in err and len(err.splitlines()) == 1


def test_a_place_that_is_no_folder_is_refused(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = cli(capsys, "export-c", DIGITS, tmp_path / "file", "--shape", "image=1,1,8,8")
    assert code == 2 and "this is a file; name a folder" in err
