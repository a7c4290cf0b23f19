"""Long sums in float32 against float64: none passes through all of its terms one after another."""

import numpy as np
import onnx
import pytest

import byoc

pytestmark = pytest.mark.needs_cc
SHAPES = {
    "rows of vectors": ((20000, 64), [0]),
    "rows of 7": ((4, 20000, 7), [1]),
    "channels last": ((1, 120, 150, 16), [1, 2]),
    "planes": ((300, 90, 8), [0, 1]),
    "a number of rows that no chain divides": ((19997, 24), [0]),
    "rows of short columns": ((9000, 2, 32), [0, 1]),
    "along rows": ((16, 20001), [1]),
}


def model(op: str, shape: tuple[int, ...], axes: list[int], free: bool) -> onnx.ModelProto:
    dims = [f"N{k}" if free and k in axes else str(d) for k, d in enumerate(shape)]
    after = ["1" if k in axes else d for k, d in enumerate(dims)]
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 13]> g (float[{", ".join(dims)}] x) => (float[{", ".join(after)}] y) '
        f"{{ y = {op}<axes = [{', '.join(map(str, axes))}], keepdims = 1>(x) }}"
    )


@pytest.mark.parametrize("free", [False, True], ids=["fixed", "free"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_long_sum_is_nearer_to_the_true_one_than_adding_terms_in_turn(name, free):
    shape, axes = SHAPES[name]
    x = np.random.default_rng(0).random(shape).astype("float32")
    x[..., -1] = 0.1  # whose roundings all go the same way
    library = byoc.compile(model("ReduceMean", shape, axes, free))
    (got,) = library.run({"x": x})
    want = x.astype("float64").mean(axis=tuple(axes), keepdims=True)
    in_turn = np.add.accumulate(x.reshape(-1, x.shape[-1]) if axes[-1] != x.ndim - 1 else x.T, axis=0, dtype="float32")
    error = np.abs(got - want).max() / want.max()
    assert error <= 1.5e-6
    if name in ("rows of vectors", "channels last", "planes"):
        one = np.abs(in_turn[-1] / len(in_turn) - want.reshape(-1)).max() / want.max()
        assert error <= one / 3


def test_squares_and_their_root_are_as_near():
    shape = (20000, 64)
    x = np.random.default_rng(1).random(shape).astype("float32")
    for op, of in (("ReduceSumSquare", lambda s: s), ("ReduceL2", np.sqrt)):
        (got,) = byoc.compile(model(op, shape, [0], False)).run({"x": x})
        want = of((x.astype("float64") ** 2).sum(axis=0, keepdims=True))
        assert (np.abs(got - want) / want).max() <= 1e-6
