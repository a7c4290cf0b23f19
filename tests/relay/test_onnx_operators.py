"""Operators of the importer against ONNX Runtime: old forms, attributes and shapes that the node tests leave out."""

from dataclasses import dataclass, field

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate

RNG = np.random.default_rng(7)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def i64(*values: int) -> np.ndarray:
    return np.array(values, "int64")


def i8(*shape: int) -> np.ndarray:
    return RNG.integers(-100, 100, shape).astype("int8")


@dataclass
class Case:
    """One node: its operator and opset, run-time inputs, further inputs that are initialisers (None: left out).

    With *newer* the ONNX Runtime of Python 3.10 refuses it, or computes otherwise.
    """

    op: str
    opset: int
    inputs: list[np.ndarray]
    attrs: dict[str, object] = field(default_factory=dict)
    constants: list[np.ndarray | None] = field(default_factory=list)
    outputs: int = 1
    newer: bool = False

    def model(self):
        runtime = [f"x{i}" for i in range(len(self.inputs))]
        fixed = [f"c{i}" if c is not None else "" for i, c in enumerate(self.constants)]
        made = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, runtime + fixed, made, name="node", **self.attrs)
        kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in self.inputs]
        graph = helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info(n, k, a.shape) for n, k, a in zip(runtime, kinds, self.inputs, strict=True)],
            [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in made],
            [numpy_helper.from_array(c, n) for n, c in zip(fixed, self.constants, strict=True) if c is not None],
        )
        for value in graph.output:
            value.ClearField("type")
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


IMAGE = f32(2, 6, 9, 7)
CASES = [
    Case("Sub", 7, [f32(2, 3, 4), f32(1, 4)]),
    Case("Div", 14, [np.array([-7, 7, -6], "int32"), np.array([2, -2, 4], "int32")]),
    Case("Mod", 13, [np.array([-7, 7, -6], "int64"), np.array([2, -3, 4], "int64")]),
    Case("Mod", 13, [np.array([-7.5, 7, -6], "float32"), np.array([2, -3, 4], "float32")], {"fmod": 1}),
    Case("Pow", 15, [np.abs(f32(3, 4)), i64(0, 1, 2, 3)]),
    Case("Clip", 6, [f32(3, 4)], {"min": -0.2, "max": 0.4}),
    Case("Clip", 6, [f32(3, 4)], {"max": 0.4}),
    Case("Clip", 13, [f32(3, 4)], constants=[np.float32(-0.3).reshape(()), None]),
    Case("Clip", 13, [f32(3, 4)], constants=[np.float32(-0.3).reshape(()), np.float32(0.3).reshape(())]),
    Case("Softmax", 11, [f32(2, 3, 4)], {"axis": 1}),
    Case("Softmax", 11, [f32(2, 3, 4)], {"axis": 2}),
    Case("Softmax", 13, [f32(2, 3, 4)], {"axis": 1}),
    Case("LogSoftmax", 11, [f32(2, 3, 4)], {"axis": 0}),
    Case("Hardmax", 11, [f32(2, 3, 4)], {"axis": 1}),
    Case("Softplus", 1, [f32(3, 4) * 60]),
    Case("Selu", 6, [f32(3, 4)]),
    Case("Celu", 12, [f32(3, 4)], {"alpha": 2.0}),
    Case("HardSigmoid", 6, [f32(3, 4) * 4], {"alpha": 0.25, "beta": 0.4}),
    Case("HardSwish", 14, [f32(3, 4) * 4]),
    Case("Gelu", 20, [f32(3, 4)], {"approximate": "tanh"}),
    Case("ThresholdedRelu", 10, [f32(3, 4)], {"alpha": 0.4}),
    Case("PRelu", 9, [f32(2, 3, 4, 5)], constants=[f32(3, 1, 1)]),
    Case("PRelu", 9, [f32(2, 3, 4)], constants=[f32(4)]),
    Case("PRelu", 9, [f32(2, 3, 4)], constants=[f32(1)]),
    Case("Conv", 11, [IMAGE], {"strides": [2, 3], "pads": [1, 0, 2, 1]}, [f32(4, 6, 3, 2), f32(4)]),
    Case("Conv", 11, [IMAGE], {"group": 3, "dilations": [2, 1]}, [f32(6, 2, 3, 3)]),
    Case("Conv", 11, [IMAGE], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}, [f32(4, 6, 4, 3)]),
    Case("Conv", 11, [IMAGE], {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, [f32(4, 6, 4, 3)]),
    Case("Conv", 11, [IMAGE], {"auto_pad": "VALID"}, [f32(4, 6, 3, 3), f32(4)]),
    Case("Conv", 11, [f32(2, 4, 11)], {"strides": [2], "pads": [1, 2]}, [f32(5, 4, 3), f32(5)]),
    Case("Conv", 11, [f32(1, 2, 5, 6, 7)], {"pads": [1, 0, 1, 1, 2, 0]}, [f32(3, 2, 3, 2, 3), f32(3)]),
    Case("ConvTranspose", 11, [IMAGE], {"strides": [2, 3], "pads": [1, 0, 0, 1]}, [f32(6, 4, 3, 2), f32(4)]),
    Case("ConvTranspose", 11, [IMAGE], {"strides": [2, 2], "output_padding": [1, 0]}, [f32(6, 4, 3, 3)]),
    Case("ConvTranspose", 11, [IMAGE], {"strides": [2, 2], "group": 2}, [f32(6, 4, 3, 3), f32(8)]),
    Case("ConvTranspose", 11, [IMAGE], {"strides": [2, 2], "dilations": [2, 1]}, [f32(6, 4, 3, 3)]),
    Case("ConvTranspose", 11, [IMAGE], {"strides": [2, 2], "output_shape": [18, 14]}, [f32(6, 4, 3, 3)]),
    Case("ConvTranspose", 11, [IMAGE], {"strides": [2, 2], "output_shape": [20, 16]}, [f32(6, 4, 3, 3)]),
    Case("ConvTranspose", 11, [IMAGE], {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, [f32(6, 4, 3, 3)]),
    Case("ConvTranspose", 11, [IMAGE], {"strides": [2, 2], "auto_pad": "SAME_LOWER"}, [f32(6, 4, 3, 3)]),
    Case("ConvTranspose", 11, [f32(1, 3, 6)], {"strides": [2]}, [f32(3, 2, 3)]),
    Case("MaxPool", 12, [IMAGE], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 0, 1]}),
    Case("MaxPool", 12, [IMAGE], {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
    Case("MaxPool", 12, [IMAGE], {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    Case("MaxPool", 12, [IMAGE], {"kernel_shape": [2, 2], "dilations": [2, 3]}),
    Case("MaxPool", 12, [f32(1, 2, 9)], {"kernel_shape": [3]}),
    Case("MaxPool", 12, [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2]}, outputs=2),
    Case("MaxPool", 12, [IMAGE], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "dilations": [2, 1]}, outputs=2),
    Case("MaxPool", 12, [np.ones((1, 2, 5, 5), "float32")], {"kernel_shape": [3, 3], "pads": [1] * 4}, outputs=2),
    Case("MaxPool", 12, [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "storage_order": 1}, outputs=2),
    Case("MaxPool", 12, [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, outputs=2),
    Case("MaxPool", 12, [f32(2, 3, 11)], {"kernel_shape": [4], "strides": [3], "pads": [2, 1]}, outputs=2),
    Case("MaxPool", 12, [f32(1, 2, 4, 5, 6)], {"kernel_shape": [2, 3, 2], "auto_pad": "SAME_UPPER"}, outputs=2),
    Case("AveragePool", 11, [IMAGE], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    Case("AveragePool", 11, [IMAGE], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1}),
    Case("AveragePool", 19, [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "pads": [0, 0, 1, 1]}),
    Case("LpPool", 11, [IMAGE], {"kernel_shape": [3, 2], "p": 3}),
    Case("GlobalLpPool", 2, [IMAGE], {"p": 1}),
    Case("GlobalAveragePool", 1, [f32(2, 3, 4)]),
    Case("GlobalMaxPool", 1, [f32(2, 3, 4, 2, 2)]),
    Case("BatchNormalization", 7, [IMAGE], {"epsilon": 0.01}, [f32(6), f32(6), f32(6), np.abs(f32(6))]),
    Case("BatchNormalization", 15, [f32(4, 6)], {}, [f32(6), f32(6), f32(6), np.abs(f32(6))]),
    Case("InstanceNormalization", 6, [IMAGE], {"epsilon": 0.01}, [f32(6), f32(6)]),
    Case("LayerNormalization", 17, [f32(2, 3, 4)], {}, [f32(4), f32(4)]),
    Case("LayerNormalization", 17, [f32(2, 3, 4)], {"axis": 1}, [f32(3, 4)]),
    Case("LayerNormalization", 17, [f32(2, 3, 4)], {}, [f32(1)], newer=True),
    Case("LayerNormalization", 17, [f32(2, 3, 4)], {}, [f32(4), f32(1)], newer=True),
    Case("LayerNormalization", 17, [f32(2, 3, 4)], {"axis": 1}, [f32(3, 1)], newer=True),
    Case("CenterCropPad", 18, [f32(1, 3, 5, 7)], {}, [i64(1, 5, 3, 9)]),
    Case("CenterCropPad", 21, [f32(1, 3, 5, 7)], {}, [i64(1, 5, 3, 9)]),
    Case("LRN", 13, [IMAGE], {"size": 3, "alpha": 0.3, "beta": 0.6, "bias": 1.5}),
    Case("LpNormalization", 1, [f32(2, 3, 4)], {"p": 1, "axis": 1}),
    Case("Gemm", 11, [f32(4, 3), f32(5, 4), f32(3, 1)], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    Case("Gemm", 11, [f32(3, 4)], {}, [f32(4, 5), f32(5)]),
    Case("Gemm", 13, [f32(3, 4)], {}, [f32(4, 5)]),
    Case("MatMul", 9, [f32(4), f32(4)]),
    Case("MatMul", 9, [f32(4), f32(2, 4, 3)]),
    Case("MatMul", 9, [f32(2, 3, 4), f32(4)]),
    Case("MatMul", 9, [f32(2, 5, 3, 4)], {}, [f32(4, 6)]),
    Case("MatMul", 9, [f32(2, 1, 3, 4), f32(5, 4, 6)]),
    Case("MatMul", 9, [f32(3, 4), f32(5, 4, 6)]),
    Case("Einsum", 12, [f32(2, 3, 4), f32(2, 4, 5)], {"equation": "bij,bjk->bik"}),
    Case("Reshape", 13, [f32(2, 3, 4)], constants=[i64(0, -1, 2)]),
    Case("Flatten", 13, [f32(2, 3, 4)], {"axis": 2}),
    Case("Flatten", 13, [f32(2, 3, 4)], {"axis": -1}),
    Case("Squeeze", 11, [f32(1, 3, 1)], {"axes": [-1]}),
    Case("Squeeze", 13, [f32(1, 3, 1)]),
    Case("Unsqueeze", 13, [f32(2, 3)], constants=[i64(-1, 0)]),
    Case("Expand", 13, [f32(3, 1)], constants=[i64(2, 1, 4)]),
    Case("Transpose", 13, [f32(2, 3, 4)]),
    Case("Concat", 13, [f32(2, 3), f32(2, 2)], {"axis": -1}),
    Case("Split", 11, [f32(6, 4)], {"axis": 0, "split": [1, 2, 3]}, outputs=3),
    Case("Split", 18, [f32(7, 4)], {"num_outputs": 3}, outputs=3),
    Case("Slice", 9, [f32(5, 6)], {"starts": [1, -3], "ends": [4, 1000], "axes": [0, 1]}),
    Case("Slice", 13, [f32(5, 6)], {}, [i64(-1, 4), i64(-1000, 0), i64(0, 1), i64(-2, -1)]),
    Case("Slice", 13, [f32(5, 6)], {}, [i64(3), i64(1), i64(1)]),
    Case("Slice", 13, [f32(5, 6)], {}, [i64(-1000, -6), i64(-1000, -1000), i64(1, 0), i64(-1, -2)]),
    Case("Slice", 13, [f32(5, 6), i64(1), i64(-1)]),
    Case("Tile", 13, [f32(2, 3)], constants=[i64(2, 1)]),
    Case("DepthToSpace", 13, [f32(1, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"}),
    Case("SpaceToDepth", 13, [f32(1, 2, 4, 6)], {"blocksize": 2}),
    Case("Trilu", 14, [f32(2, 4, 5)], {"upper": 0}, [np.array(1, "int64")]),
    Case("Pad", 2, [f32(2, 3, 4, 5)], {"pads": [0, 0, 1, 2, 0, 0, 2, 1], "mode": "reflect"}),
    Case("Pad", 13, [f32(3, 4)], {}, [i64(1, -1, 0, 2), np.array(2.5, "float32")]),
    Case("Pad", 13, [f32(3, 0)], {}, [i64(1, -1, 0, 3)]),
    Case("Pad", 13, [f32(3, 2)], {}, [i64(4, -3, -5, 2), np.array(2.5, "float32")], newer=True),
    Case("Pad", 13, [f32(3, 4)], {"mode": "edge"}, [i64(1, 0, 0, 2)]),
    Case("Pad", 19, [f32(3, 4)], {"mode": "wrap"}, [i64(1, 0, 5, 2)]),
    Case("Gather", 13, [f32(4, 5)], {"axis": 1}, [i64(-1, 0, 3)]),
    Case("Gather", 13, [f32(4, 5), i64(-1, 2)]),
    Case("GatherElements", 13, [f32(3, 4)], {"axis": 1}, [np.array([[0, -1], [2, 3], [1, 1]])]),
    Case("GatherND", 13, [f32(3, 4, 5)], {}, [np.array([[0, -1], [2, 3]])]),
    Case("GatherND", 13, [f32(2, 3, 4)], {"batch_dims": 1}, [np.array([[1, 2], [0, -1]])]),
    Case("ScatterElements", 18, [f32(3, 4)], {"axis": 1, "reduction": "max"}, [np.array([[0], [-1], [2]]), f32(3, 1)]),
    Case("ScatterND", 18, [f32(4, 3)], {"reduction": "add"}, [np.array([[1], [-1]]), f32(2, 3)]),
    Case("TopK", 11, [f32(3, 8)], {"largest": 0}, [i64(3)], 2),
    Case("TopK", 11, [f32(3, 8)], {"axis": 0}, [i64(2)], 2),
    Case("OneHot", 11, [i64(1, -1, 7)], {"axis": 0}, [np.array(4, "int64"), np.array([0.5, 2], "float32")]),
    Case("CumSum", 14, [f32(3, 4)], {"reverse": 1, "exclusive": 1}, [np.array(1, "int64")]),
    Case("ReduceSum", 11, [f32(2, 3, 4)], {"axes": [0, -1], "keepdims": 0}),
    Case("ReduceMean", 18, [f32(2, 3, 4)], {"keepdims": 0}, [i64(1)]),
    Case("ReduceL2", 11, [f32(2, 3, 4)], {"axes": [1]}),
    Case("ReduceL2", 18, [RNG.integers(-99, 99, (2, 9, 4)).astype("int32")], {}, [i64(1)]),
    Case("ReduceL2", 18, [RNG.integers(-99, 99, (2, 9, 4))], {"keepdims": 0}, [i64(0, 1)]),
    Case("ReduceLogSum", 18, [RNG.integers(1, 99, (2, 9, 4)).astype("int32")], {}, [i64(1)]),
    Case("ReduceLogSum", 18, [RNG.integers(1, 99, (2, 9, 4))]),
    Case("ReduceLogSumExp", 11, [f32(2, 3, 4) * 80], {"axes": [1]}),
    Case("ReduceProd", 11, [f32(2, 3)]),
    Case("ArgMax", 13, [f32(3, 4)], {"axis": -1, "keepdims": 0}),
    Case("ArgMin", 13, [np.array([[2, 1, 1]], "int32")], {"axis": 1, "select_last_index": 1}),
    Case("Max", 13, [f32(3), f32(2, 3), f32(1)]),
    Case("Mean", 13, [f32(3), f32(2, 3)]),
    Case("Where", 16, [f32(3, 1) > 0, f32(3, 4), f32(4)]),
    Case("Equal", 11, [np.array([1, 2, 3]), np.array([1, 5, 3])]),
    Case("IsInf", 10, [np.array([1, np.inf, -np.inf, np.nan], "float32")], {"detect_negative": 0}),
    Case("Cast", 13, [f32(3, 4) * 5], {"to": TensorProto.INT32}),
    Case("Range", 11, [], {}, [np.array(3, "int64"), np.array(12, "int64"), np.array(4, "int64")]),
    Case("ConstantOfShape", 9, [], {"value": numpy_helper.from_array(i64(7))}, [i64(2, 3)]),
    Case("EyeLike", 9, [f32(3, 4)], {"k": 1}),
    Case("NonZero", 13, [np.array([[0.0, 1], [2, 0]], "float32")]),
    Case("Upsample", 9, [f32(1, 2, 3, 4)], {"mode": "nearest"}, [np.array([1, 1, 2, 3], "float32")]),
    Case("Upsample", 9, [f32(1, 2, 3, 4)], {"mode": "linear"}, [np.array([1, 1, 2, 2], "float32")]),
    Case("Resize", 10, [f32(1, 2, 4, 6)], {}, [np.array([1, 1, 0.5, 1.5], "float32")]),
    Case("Resize", 13, [f32(1, 2, 4, 6)], {"mode": "linear"}, [None, np.array([1, 1, 1.5, 0.5], "float32")]),
    Case("Resize", 13, [f32(1, 2, 4, 6)], {"mode": "cubic"}, [None, None, i64(1, 2, 7, 9)]),
    Case(
        "Resize",
        13,
        [f32(1, 2, 4, 6)],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        [None, None, i64(1, 2, 7, 9)],
    ),
    Case(
        "Resize",
        13,
        [f32(1, 1, 4, 6)],
        {"nearest_mode": "ceil", "coordinate_transformation_mode": "asymmetric"},
        [None, None, i64(1, 1, 6, 4)],
    ),
    Case("QuantizeLinear", 13, [f32(2, 3) * 9], {"axis": 1}, [np.abs(f32(3)), np.array([1, 2, 3], "int8")]),
    Case("DequantizeLinear", 13, [i8(2, 3)], {"axis": 0}, [np.abs(f32(2)), np.array([4, -3], "int8")]),
    Case("DynamicQuantizeLinear", 11, [f32(3, 4)], outputs=3),
    Case("Dropout", 13, [f32(3, 4)], outputs=2),
]


def test_a_sum_without_axes_may_be_set_to_do_nothing() -> None:
    """Against ONNX's definition: ONNX Runtime refuses this node up to version 1.23."""
    case = Case("ReduceSum", 13, [f32(2, 3, 4)], {"noop_with_empty_axes": 1})
    np.testing.assert_array_equal(evaluate(import_onnx(case.model()), {"x0": case.inputs[0]}), case.inputs[0])


NEWER = (pytest.mark.newer_onnxruntime,)


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=f"{k}-{c.op}-{c.opset}", marks=NEWER if c.newer else ()) for k, c in enumerate(CASES)],
)
def test_an_operator_computes_what_onnx_runtime_computes(case: Case) -> None:
    model = case.model()
    feeds = {f"x{i}": a for i, a in enumerate(case.inputs)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, feeds)
    got = evaluate(import_onnx(model), feeds)
    got = got if isinstance(got, list) else [got]
    for found, expected in zip(got, wanted, strict=True):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_the_logarithm_of_a_sum_of_powers_of_integers_is_cut_off_once(dtype: str) -> None:
    """By its formula: ONNX Runtime cuts off each power, and ONNX has no such integers any more."""
    data = RNG.integers(-5, 30, (4, 50, 6)).astype(dtype)
    case = Case("ReduceLogSumExp", 18, [data], {}, [i64(1)])
    wanted = np.trunc(np.log(np.exp(data.astype("float64")).sum(1, keepdims=True))).astype(dtype)
    np.testing.assert_array_equal(evaluate(import_onnx(case.model()), {"x0": data}), wanted)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("size", [[2, 3, 4, 5], [1, 3, 4, 5], [2, 3, 4, 5, 6], [1, 2, 3, 2, 4]])
def test_an_affine_grid_of_a_known_size_is_onnxs(size: list[int], align_corners: int) -> None:
    """Against ONNX's reference evaluator; its definition in simpler operators loses a batch of one."""
    axes = len(size) - 2
    case = Case("AffineGrid", 20, [f32(size[0], axes, axes + 1)], {"align_corners": align_corners}, [i64(*size)])
    feeds = {"x0": case.inputs[0]}
    (wanted,) = ReferenceEvaluator(case.model()).run(None, feeds)
    np.testing.assert_allclose(evaluate(import_onnx(case.model()), feeds), wanted, rtol=1e-5, atol=1e-6)


def test_a_range_takes_lists_of_one_as_onnxs_own_functions_have_them() -> None:
    """The definition of AffineGrid, for a size that is known only when the model runs, calls Range so."""
    case = Case("Range", 11, [], {}, [np.array(0, "int64"), i64(4), np.array(1, "int64")])
    np.testing.assert_array_equal(evaluate(import_onnx(case.model()), {}), np.arange(4))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
@pytest.mark.parametrize("alpha, beta", [(0.5, 1.0), (-1.25, 0.0), (1.0, 2.5), (-2.0, 3.0), (0.75, -0.5)])
def test_integers_of_a_gemm_take_fractional_factors(dtype: str, alpha: float, beta: float) -> None:
    """Against ONNX's reference evaluator: ONNX Runtime has no product of integers of which factors are asked."""
    a, b, c = (RNG.integers(0 if dtype[0] == "u" else -9, 10, s).astype(dtype) for s in ((3, 4), (4, 5), (5,)))
    case = Case("Gemm", 13, [a, b, c], {"alpha": alpha, "beta": beta})
    feeds = {f"x{i}": value for i, value in enumerate(case.inputs)}
    (wanted,) = ReferenceEvaluator(case.model()).run(None, feeds)
    got = evaluate(import_onnx(case.model()), feeds)
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


A, B = f32(2, 3, 4, 5), f32(3, 4)
# what ONNX Runtime no longer runs, against the formula of the operator's old definition
LEGACY = [
    (Case("Add", 6, [A, B], {"axis": 1, "broadcast": 1}), A + B[:, :, None]),
    (Case("Mul", 6, [A, A[0, :, 0, 0]], {"axis": 1, "broadcast": 1}), A * A[0, :, 0, 0][:, None, None]),
    (Case("Div", 6, [A, A[0, 0, 0]], {"broadcast": 1}), A / A[0, 0, 0]),
    (Case("Sub", 6, [A, A[::-1].copy()]), A - A[::-1]),
    (Case("Equal", 1, [np.array([[1, 2], [3, 4]]), np.array([1, 4])], {"broadcast": 1}), [[1, 0], [0, 1]]),
    (Case("Cast", 1, [A], {"to": "DOUBLE"}), A.astype("float64")),
    (Case("Reshape", 1, [A], {"shape": [0, -1, 10]}), A.reshape(2, 6, 10)),
    (Case("ImageScaler", 7, [A], {"scale": 2.0, "bias": [1.0, 2.0, 3.0]}), A * 2 + np.array([[[1]], [[2]], [[3]]])),
    (Case("Crop", 7, [A], {"border": [1, 2, 2, 0]}), A[:, :, 2:4, 1:3]),
    (Case("Crop", 7, [A], {"border": [1, 0, 0, 0], "scale": [2, 3]}), A[:, :, 0:2, 1:4]),
    (Case("Affine", 7, [A], {"alpha": 3.0, "beta": -1.0}), A * 3 - 1),
    (Case("ScaledTanh", 7, [A], {"alpha": 2.0, "beta": 0.5}), 2 * np.tanh(A / 2)),
    (Case("ParametricSoftplus", 7, [A], {"alpha": 2.0, "beta": 0.5}), 2 * np.log1p(np.exp(A / 2))),
    (Case("Scale", 7, [A], {"scale": 0.5}), A / 2),
    (Case("GivenTensorFill", 1, [], {"values": [1.0, 2.0], "shape": [1, 2]}), [[1.0, 2.0]]),
    (Case("Tile", 1, [B], {}, [np.array(2, "int64"), np.array(1, "int64")]), np.tile(B, (1, 2))),
    (Case("TopK", 1, [B], {"k": 2}), np.sort(B, axis=1)[:, :-3:-1]),
    (Case("Upsample", 1, [A], {"height_scale": 2.0, "width_scale": 1.0}), A.repeat(2, axis=2)),
    (
        Case("BatchNormalization", 7, [A[:, 0, 0]], {"spatial": 0, "epsilon": 0.0}, [np.full(5, 2, "float32")] * 4),
        (A[:, 0, 0] - 2) / np.sqrt(2) * 2 + 2,
    ),
]


@pytest.mark.parametrize("case, wanted", [pytest.param(c, w, id=f"{c.op}-{k}") for k, (c, w) in enumerate(LEGACY)])
def test_an_old_operator_computes_its_definition(case: Case, wanted: object) -> None:
    feeds = {f"x{i}": a for i, a in enumerate(case.inputs)}
    got = evaluate(import_onnx(case.model()), feeds)
    expected = np.asarray(wanted)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
