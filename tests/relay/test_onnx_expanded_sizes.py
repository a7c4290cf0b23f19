"""``tensor.expand`` as TorchScript's exporter writes it: -1 in a list of sizes stands for one that stays as it is."""

import numpy as np
import onnx
import onnxruntime
import pytest

import byoc

TEXT = """
<ir_version: 8, opset_import: ["" : 14]>
g (float[batch, new, 4] x, float[1, 1, 4] row) => (float[batch, new, 4] y)
<int64[1] minus = {-1}, int64[1] four = {4}, int64 zero = {0}, int64 one = {1}, int64[1] axis = {0},
 int64[1] three = {3}>
{
  all = Shape(x)
  batch0 = Gather<axis = 0>(all, zero)
  batch1 = Unsqueeze(batch0, axis)
  new0 = Gather<axis = 0>(all, one)
  new1 = Unsqueeze(new0, axis)
  sizes = Concat<axis = 0>(batch1, SECOND, four)
  ones = ConstantOfShape<value = int64[1] {1}>(three)
  less = Mul(ones, minus)
  stays = Equal(sizes, less)
  wanted = Where(stays, ones, sizes)
  spread = Expand(row, wanted)
  y = Add(x, spread)
}
"""


@pytest.mark.needs_cc
@pytest.mark.parametrize("second", ["new1", "minus"])
def test_what_follows_an_expansion_is_generated_code(second):
    model = onnx.parser.parse_model(TEXT.replace("SECOND", second))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    library = byoc.compile(model)
    assert library.report["host_fallbacks"] == {} and "node_by_node" not in library.report
    for shape in ((2, 3, 4), (1, 1, 4), (3, 7, 4)):
        given = np.random.default_rng(0).standard_normal(shape).astype("float32")
        feeds = {"x": given, "row": np.arange(4, dtype="float32").reshape(1, 1, 4)}
        np.testing.assert_array_equal(library.run(feeds)[0], session.run(None, feeds)[0])
