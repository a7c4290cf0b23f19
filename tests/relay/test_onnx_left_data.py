"""Large weights that stay in the model's file until they are wanted: the same module, without the file in memory."""

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.frontend.onnx.left_data import LEAST, LEAST_FILE, LeftData
from byoc.relay.frontend.onnx.load import load_model

ROWS = 3000


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((ROWS, 700)).astype("float32")
    return {
        "a": table,
        "b": rng.standard_normal((700, ROWS)).astype("float64"),
        "small": rng.standard_normal(8).astype("float32"),
        "half": table.astype(ml_dtypes.bfloat16),
        "four": rng.integers(-8, 8, (ROWS, 100)).astype(ml_dtypes.int4),
        "integers": rng.integers(0, 9, (ROWS, 40)),
    }


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"], name) for name in weights()]
    outputs = [
        helper.make_tensor_value_info(f"{name}_out", helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in weights().items()
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in weights().items()]
    tensors.append(helper.make_tensor("by_number", TensorProto.FLOAT, [20000], np.arange(20000.0)))
    nodes.append(helper.make_node("Identity", ["by_number"], ["n"]))
    outputs.append(helper.make_tensor_value_info("n", TensorProto.FLOAT, [20000]))
    model = helper.make_model(helper.make_graph(nodes, "g", [], outputs, tensors), ir_version=10)
    model.opset_import[0].version = 21
    found = tmp_path_factory.mktemp("left") / "model.onnx"
    found.write_bytes(model.SerializeToString())
    assert found.stat().st_size > LEAST_FILE
    return found


def test_the_weights_are_those_of_the_file_and_of_its_bytes(path):
    loaded, whole = load_model(path, leave=True), load_model(path.read_bytes())
    assert loaded.left is not None and len(loaded.left.message) < path.stat().st_size / 20
    for mine, theirs in zip(loaded.proto.graph.initializer, whole.proto.graph.initializer, strict=True):
        got, want = loaded.array(mine), whole.array(theirs)
        assert (got.dtype, got.shape, got.tobytes()) == (want.dtype, want.shape, want.tobytes())
        if want.nbytes >= LEAST and mine.name not in ("by_number", "four"):
            assert got.flags.writeable and len(mine.raw_data) == 24


def test_a_small_file_is_read_as_a_whole(tmp_path):
    (tmp_path / "x.onnx").write_bytes(b"\x08\x07")
    assert LeftData.of_file(tmp_path / "x.onnx") is None


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9999])
def test_a_file_that_is_cut_off_is_refused_as_any_other(path, tmp_path, kept):
    data = path.read_bytes()
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(data[: int(len(data) * kept)] + bytes(LEAST_FILE if kept < 0.5 else 0))
    with pytest.raises(ImportModelError, match="cut.onnx: "):
        import_onnx(cut)


def test_data_that_do_not_fit_their_shape_are_refused_with_the_tensor(path, tmp_path):
    model = onnx.load(path)
    model.graph.initializer[0].dims[0] -= 1
    wrong = tmp_path / "wrong.onnx"
    wrong.write_bytes(model.SerializeToString())
    with pytest.raises(ImportModelError, match="tensor 'a': its data do not fit its shape"):
        import_onnx(wrong)


def test_a_file_that_is_written_into_while_it_is_read_is_refused(path, tmp_path):
    own = tmp_path / "own.onnx"
    own.write_bytes(path.read_bytes())
    loaded = load_model(own, leave=True)
    with own.open("r+b") as file:
        file.seek(LEAST_FILE // 2)
        file.write(b"changed")
    os.utime(own, ns=(1, 1))
    with pytest.raises(ImportModelError, match="was changed while it was read"):
        loaded.array(loaded.proto.graph.initializer[0])


def test_a_word_of_the_file_itself_stands_for_nothing(path, tmp_path):
    """What stands for the bytes is random, so that a model cannot ask for a part of its file by it."""
    first, second = (load_model(path, leave=True) for _ in range(2))
    assert first.proto.graph.initializer[0].raw_data not in second.left


MEASURED = """
import sys
from byoc.relay.frontend.onnx import import_onnx
def most():
    return 1024 * int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
before = most()
kept = import_onnx(sys.argv[1])
print(most() - before)
"""


def test_reading_takes_little_more_memory_than_the_weights(tmp_path):
    table = np.ones((40_000, 700), "float32")
    nodes = [
        helper.make_node("Transpose", ["table"], ["turned"]),
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("MatMul", ["x", "turned"], ["y"]),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 40_000])
    graph = helper.make_graph(nodes, "g", [ids], [out], [numpy_helper.from_array(table, "table")])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, tmp_path / "m.onnx"], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 1.2 * table.nbytes + 60e6, "the imported code's own memory is the summand"
