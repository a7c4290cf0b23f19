"""Networks as ONNX files for tests of integers, and their quantized forms by ONNX Runtime."""

import logging

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SMALL, RESNET = (1, 3, 16, 16), (1, 3, 224, 224)


class Net:
    """A graph that grows; weights are random, from a seed."""

    def __init__(self, seed=0):
        self.rng, self.nodes, self.weights = np.random.default_rng(seed), [], []

    def weight(self, *shape, scale=0.3):
        name = f"w{len(self.weights)}"
        values = self.rng.standard_normal(shape) * scale
        self.weights.append(numpy_helper.from_array(values.astype("float32"), name))
        return name

    def held(self, values, dtype):
        """A constant that is no weight."""
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def node(self, op, *inputs, name="", **attributes):
        out = name or f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=out, **attributes))
        return out

    def conv(self, data, channels, out, kernel, name="", stride=1, group=1, relu=False):
        scale = (2.0 / (channels // group * kernel**2)) ** 0.5
        weights = self.weight(out, channels // group, kernel, kernel, scale=scale), self.weight(out)
        pads = [kernel // 2] * 4
        found = self.node("Conv", data, *weights, name=name, pads=pads, strides=[stride] * 2, group=group)
        return self.node("Relu", found) if relu else found

    def save(self, path, shape, result, out_shape):
        self.nodes[-1].output[0] = "y"
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, out_shape)
        graph = helper.make_graph(self.nodes, "net", [x], [y], self.weights)
        opset = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
        return path


def small_net(path):
    """Four convolutions (one depthwise, one with a stride), a residual sum, a max pool and a dense layer."""
    net = Net()
    first = net.conv("x", 3, 8, 3, "first", relu=True)
    depthwise = net.conv(first, 8, 8, 3, "depthwise", group=8, relu=True)
    total = net.node("Add", net.conv(depthwise, 8, 8, 1, "pointwise"), first, name="sum")
    pooled = net.node("MaxPool", net.node("Relu", total), name="pool", kernel_shape=[2, 2], strides=[2, 2])
    last = net.conv(pooled, 8, 16, 3, "strided", stride=2)
    flat = net.node("Flatten", net.node("GlobalAveragePool", last, name="mean"))
    net.node("Gemm", flat, net.weight(10, 16), net.weight(10), name="dense", transB=1)
    return net.save(path, SMALL, "y", (1, 10))


def wide_net(path):
    """One of every operator on images that ONNX Runtime quantizes as one of its own, then two products and softmax."""
    net = Net()
    first = net.conv("x", 3, 8, 3, "first", relu=True)
    leaky = net.node("LeakyRelu", net.conv(first, 8, 8, 3), alpha=0.1)
    gate = net.node("Sigmoid", net.conv(first, 8, 8, 1))
    joined = net.node("Concat", net.node("Mul", net.node("Add", leaky, first), gate), leaky, axis=1)
    pooled = net.node("MaxPool", joined, kernel_shape=[2, 2], strides=[2, 2])
    means = net.node("AveragePool", pooled, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    flat = net.node("Flatten", net.node("GlobalAveragePool", means))
    dense = net.node("Gemm", flat, net.weight(12, 16), net.weight(12), transB=1)
    net.node("Softmax", net.node("MatMul", dense, net.weight(12, 10)), axis=-1)
    return net.save(path, SMALL, "y", (1, 10))


def attention_net(path):
    """What moves numbers (padding, resizing, cutting, joining, other axes) around convolutions, and then attention."""
    net = Net()
    padded = net.node("Pad", net.conv("x", 3, 8, 3, relu=True), net.held([0, 0, 1, 1, 0, 0, 1, 1], "int64"))
    sizes = net.held([1, 1, 2, 2], "float32")
    larger = net.node("Resize", net.conv(padded, 8, 8, 3), "", sizes, mode="nearest")
    pooled = net.node("MaxPool", larger, kernel_shape=[3, 3], strides=[2, 2])
    net.nodes.append(helper.make_node("Split", [pooled, net.held([4, 4], "int64")], ["a", "b"], name="split", axis=1))
    rows = net.node("Reshape", net.node("Concat", "b", "a", axis=1), net.held([1, 8, -1], "int64"))
    tokens = net.node("Transpose", rows, perm=[0, 2, 1])
    left, right = net.node("MatMul", tokens, net.weight(8, 16)), net.node("MatMul", tokens, net.weight(8, 16))
    scores = net.node("MatMul", left, net.node("Transpose", right, perm=[0, 2, 1]))
    mixed = net.node("MatMul", net.node("Softmax", scores, axis=-1), right)
    chosen = net.node("Gather", mixed, net.held([3, 1, 2], "int64"), axis=1)
    where = net.held(np.arange(48).reshape(3, 16) % 3 > 0, "bool")
    net.node("Where", where, chosen, net.node("Clip", net.node("Relu", chosen)))
    return net.save(path, SMALL, "y", (1, 3, 16))


def resnet18(path):
    """ResNet-18: 20 convolutions and a dense layer, batch norms folded, random weights. He et al., arXiv 1512.03385."""
    net = Net()
    data = net.conv("x", 3, 64, 7, stride=2, relu=True)
    data = net.node("MaxPool", data, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for out in (64, 128, 256, 512):
        for _ in range(2):
            stride = 2 if out != channels else 1
            inner = net.conv(net.conv(data, channels, out, 3, stride=stride, relu=True), out, out, 3)
            same = data if out == channels else net.conv(data, channels, out, 1, stride=stride)
            data = net.node("Relu", net.node("Add", inner, same))
            channels = out
    flat = net.node("Flatten", net.node("GlobalAveragePool", data))
    net.node("Gemm", flat, net.weight(1000, 512, scale=0.05), net.weight(1000), transB=1)
    return net.save(path, RESNET, "y", (1, 1000))


def samples(shape, count=3, name="x", seed=1):
    """Inputs by name."""
    rng = np.random.default_rng(seed)
    return [{name: rng.standard_normal(shape).astype("float32")} for _ in range(count)]


def quantized(path, out, inputs, activations="QInt8", form="QDQ", **options):
    """The model at *path* with QuantizeLinear and DequantizeLinear (or as QLinear operators), by ONNX Runtime."""
    from onnxruntime import quantization as q

    class Reader(q.CalibrationDataReader):
        def __init__(self):
            self.left = iter(inputs)

        def get_next(self):
            return next(self.left, None)

    logging.getLogger().setLevel(logging.ERROR)  # it advises to prepare the model first
    kind = getattr(q.QuantType, activations)
    how = {"quant_format": getattr(q.QuantFormat, form), "per_channel": True}
    q.quantize_static(
        path, out, Reader(), **how, activation_type=kind, weight_type=q.QuantType.QInt8, extra_options=options
    )
    return out


def quantized_dynamically(path, out, weights="QInt8"):
    """The model at *path* with the products of its weights on integers, the data quantized when it runs."""
    from onnxruntime import quantization as q

    logging.getLogger().setLevel(logging.ERROR)
    q.quantize_dynamic(path, out, weight_type=getattr(q.QuantType, weights))
    return out


def optimised(path, out, level):
    """The model at *path* as ONNX Runtime's optimiser saves it."""
    session(path, out, level)
    return out


def session(path, saved="", level="ORT_DISABLE_ALL"):
    """A session of ONNX Runtime, by default without optimisation, which replaces nodes by its own."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    options.optimized_model_filepath, options.log_severity_level = str(saved), 3
    return onnxruntime.InferenceSession(path, options)


def without_batch_norms(path, out):
    """The model at *path* with batch norms folded and weights no inputs, of opset 13, by ONNX Runtime."""
    import onnxruntime

    model = onnx.load(path)
    names = {weight.name for weight in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath, options.log_severity_level = str(out), 3
    converted = onnx.version_converter.convert_version(model, 13)
    onnxruntime.InferenceSession(converted.SerializeToString(), options)
    return out
