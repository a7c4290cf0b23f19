"""``byoc explain``: by reason and by ONNX node, with the value that was found, and a matrix over targets."""

import json
import pathlib

from byoc.cli.main import main
from byoc.contract import get_backend
from byoc.partition.show.support_matrix import Support, support_matrix
from byoc.relay.frontend.onnx import import_onnx

MODEL = str(pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx")


def run(capsys, *arguments):
    code = main(list(arguments))
    return code, *capsys.readouterr()


def test_each_node_on_the_host_is_listed_with_what_failed_and_the_value(capsys):
    code, out, _ = run(capsys, "explain", MODEL, "--target", "blas", "--target", "c")
    assert code == 0
    lines = out.splitlines()
    assert "operators stay on the host:" in lines[0] and "[blas:operator]" in lines[1]
    at = lines.index("node_Conv_26 (nn.conv2d):")
    assert lines[at + 1].startswith("  blas: the library has dense layers")
    assert lines[at + 1].endswith(", got nn.conv2d [operator]")
    shown = sum(line.endswith(":") and not line.startswith(" ") for line in lines[2:])
    assert lines[0].startswith(f"{shown} of ")


def test_an_operator_is_found_in_the_composite_that_holds_it(capsys):
    code, out, _ = run(capsys, "explain", MODEL, "--target", "blas,c", "--node", "nn.dense")
    assert code == 0 and out.splitlines()[0].startswith("blas.dense_bias (node_linear): blas, region ")
    assert out.splitlines()[1] == "  a composite of nn.dense, nn.bias_add"
    code, _, shown = run(capsys, "explain", MODEL, "--target", "blas,c", "--node", "nn.desne")
    assert code == 2 and "is called 'nn.desne'; the nearest: nn.dense" in shown


def test_all_prints_what_each_target_says_of_each_operator(capsys):
    code, out, _ = run(capsys, "explain", MODEL, "--all", "--target", "blas,json")
    assert code == 0
    head, _, *rows = out.splitlines()
    assert head.split() == ["operator", "count", "blas", "json"]
    cells = {row.split()[0]: row for row in rows}
    assert "no [operator]" in cells["nn.conv2d"] and cells["nn.conv2d"].endswith("yes")
    assert "1 of 4, 1 in patterns [operator]" in cells["nn.bias_add"]
    assert cells["all"].split()[1] == str(sum(int(row.split()[1]) for row in rows[:-1]))


def test_all_takes_every_target_where_none_is_named_and_gives_json(capsys):
    code, out, _ = run(capsys, "explain", MODEL, "--all", "--json")
    assert code == 0 and set(json.loads(out)["targets"]) >= {"blas", "c", "json", "opencl"}
    code, _, err = run(capsys, "explain", MODEL, "--all", "--target", "nothing")
    assert code == 2 and "no backend is called 'nothing'" in err


def test_a_matrix_counts_what_is_taken_alone_and_in_patterns():
    matrix = support_matrix(import_onnx(MODEL), [get_backend("blas")])
    (row,) = (row for row in matrix.rows if row.operator == "nn.bias_add")
    assert row.count == 4 and row.support == (Support("blas", 0, 1, ("operator",)),)
    assert matrix.taken("blas") == 2
