"""Windows that do not fit into data whose size is known only at run time are refused by one sentence."""

import numpy as np
import onnx.parser
import pytest

import byoc
from byoc.errors import UserError

POOL = "kernel_shape: ints = [3], strides: ints = [2]"
NODES = {
    "greatest": f"y = MaxPool <{POOL}> (x)",
    "dilated": "y = MaxPool <kernel_shape: ints = [2], dilations: ints = [3], strides: ints = [2]> (x)",
    "mean": f"y = AveragePool <{POOL}> (x)",
    "mean with padding": f"y = AveragePool <{POOL}, count_include_pad: int = 1, pads: ints = [1, 0]> (x)",
    "p-norm": f"y = LpPool <{POOL}> (x)",
    "convolution": "y = Conv (x, w)",
    "transposed": "y = ConvTranspose <pads: ints = [2, 2]> (x, w)",
}
TOO_SMALL = {"mean with padding": 1, "transposed": 1}


@pytest.mark.needs_cc
@pytest.mark.parametrize("targets", [["c"], ["json", "c"]], ids=lambda t: t[0])
@pytest.mark.parametrize("name", NODES)
def test_a_window_larger_than_the_data_is_refused_by_one_sentence(name, targets):
    values = ", ".join(["1"] * 12)
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 19]>
g (float[1,2,N] x) => (float[] y) <float[2,2,3] w = {{{values}}}> {{ {NODES[name]} }}""")
    library = byoc.compile(model, targets)
    small = TOO_SMALL.get(name, 2)
    with pytest.raises(UserError, match=r"(a window of \d does not fit in|leaves nothing of) an axis.*: give"):
        library.run({"x": np.ones((1, 2, small), "float32")})
    assert np.asarray(library.run({"x": np.ones((1, 2, 5), "float32")})[0]).size
