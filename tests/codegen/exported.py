"""What the tests of exported C share: folders that are built and run, ONNX Runtime's answers, and models."""

import pathlib
import subprocess

import numpy as np
import onnx
from onnx import helper, numpy_helper

import byoc
from fuzz.judge.onnx_runtime import session

ROOT = pathlib.Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
SHARED = ROOT.parent / "shared" / "models" / "mnist.onnx"
ONE_IMAGE = {"image": (1, 1, 8, 8)}
WARNINGS = "-Wall -Wextra -Wcast-qual -Werror"
KINDS, KIND_NAMES = [{}, {"portable": True}, {"threads": True}], ["vectors", "portable", "threads"]
FLAGS = {False: f"CFLAGS=-O1 {WARNINGS}", True: f"CFLAGS=-O1 {WARNINGS} -pedantic"}


def export(model, folder, shapes=None, **options):
    """The files of *model* in *folder*: their bytes by name."""
    data = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    byoc.export_c(data, folder, shapes=shapes, **options)
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


def build(folder, portable=False, flags=None):
    """Make the example, with warnings as errors."""
    done = subprocess.run(["make", "-s", "-C", folder, flags or FLAGS[portable]], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def run(folder, inputs, outputs, program="model"):
    """The outputs of the built example on *inputs*, as arrays like *outputs*, by their file's names in order."""
    (folder / "results").mkdir(exist_ok=True)
    paths = []
    for k, array in enumerate(inputs):
        paths.append(folder / "results" / f"in{k}.raw")
        array.tofile(paths[-1])
    command = [folder / program, "-o", folder / "results", *paths]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    names = [line.split(":")[0] for line in done.stdout.splitlines()]
    files = {p.stem: p.read_bytes() for p in (folder / "results").glob("*.bin")}
    assert sorted(names) == sorted(files)
    return {n: np.frombuffer(files[n], o.dtype).reshape(o.shape) for n, o in zip(names, outputs, strict=True)}


def oracle(model, inputs):
    """What ONNX Runtime gives for *inputs*, in the order of the model's."""
    peer = session(model)
    return peer.run(None, {i.name: a for i, a in zip(peer.get_inputs(), inputs, strict=True)})


def agree(found, expected):
    """Whether values are those of the oracle: floats nearly, all else exactly."""
    for values, array in zip(found, expected, strict=True):
        if array.dtype.kind == "f":
            np.testing.assert_allclose(values, array, rtol=1e-4, atol=1e-5 * max(1.0, np.abs(array).max()))
        else:
            np.testing.assert_array_equal(values, array)


def checked_by(folder, source, *flags):
    """Compile *source* with the model's objects as a program of its own, and run it: what it printed."""
    (folder / "check.c").write_text(source)
    objects = [str(p) for p in sorted(folder.glob("model*.o"))]
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", *flags, "check.c", *objects, "-o", "check", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    done = subprocess.run([folder / "check"], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


def make_model(nodes, inputs, outputs, constants=()):
    """A model of *nodes*; inputs and outputs are ``(name, dtype, shape)``, constants ``name: array``."""

    def value(name, dtype, shape):
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    initializers = [numpy_helper.from_array(a, n) for n, a in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", [value(*i) for i in inputs], [value(*o) for o in outputs], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def numbers(*shape, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) / 4).astype("float32")


def convolutions():
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], group=8, pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["c1"], ["s"]),
        helper.make_node("Mul", ["c1", "s"], ["m"]),
        helper.make_node("GlobalAveragePool", ["m"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["y"]),
    ]
    constants = {
        "w0": numbers(8, 3, 3, 3),
        "b0": numbers(8),
        "w1": numbers(8, 1, 3, 3),
        "w2": numbers(8, 5),
        "b2": numbers(5),
    }
    model = make_model(nodes, [("x", "f4", (1, 3, 17, 15))], [("y", "f4", (1, 5))], constants)
    return model, [numbers(1, 3, 17, 15, seed=1)]


def attention():
    nodes = [
        helper.make_node("LayerNormalization", ["x", "g", "b"], ["n"], axis=-1),
        *(helper.make_node("MatMul", ["n", f"w{k}"], [k]) for k in "qkv"),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["soft"], axis=-1),
        helper.make_node("MatMul", ["soft", "v"], ["mixed"]),
        helper.make_node("Add", ["mixed", "x"], ["sum"]),
        helper.make_node("Erf", ["sum"], ["erf"]),
        helper.make_node("Mul", ["sum", "erf"], ["y"]),
    ]
    constants = {"g": numbers(16), "b": numbers(16), **{f"w{k}": numbers(16, 16, seed=i) for i, k in enumerate("qkv")}}
    model = make_model(nodes, [("x", "f4", (1, 7, 16))], [("y", "f4", (1, 7, 16))], constants)
    return model, [numbers(1, 7, 16, seed=5)]


def integers():
    """Sums and products that overflow, a look-up by int64, and a result of truth values."""
    nodes = [
        helper.make_node("Mul", ["a", "a"], ["square"]),
        helper.make_node("Add", ["square", "a"], ["wrapped"]),
        helper.make_node("Gather", ["table", "rows"], ["picked"], axis=0),
        helper.make_node("Mul", ["picked", "picked"], ["long"]),
        helper.make_node("Greater", ["a", "limit"], ["above"]),
        helper.make_node("Mul", ["u", "u"], ["narrow"]),
        helper.make_node("Abs", ["a"], ["size"]),
    ]
    table = np.random.default_rng(3).integers(-(2**62), 2**62, (9, 4))
    constants = {"table": table, "limit": np.asarray(5, "int32")}
    outputs = [
        ("wrapped", "i4", (37,)),
        ("long", "i8", (3, 4)),
        ("above", "?", (37,)),
        ("narrow", "u4", (37,)),
        ("size", "i4", (37,)),
    ]
    model = make_model(nodes, [("a", "i4", (37,)), ("rows", "i8", (3,)), ("u", "u4", (37,))], outputs, constants)
    rng = np.random.default_rng(0)
    a = rng.integers(-(2**31), 2**31, 37).astype("int32")
    return model, [a, np.array([8, -1, 0]), rng.integers(0, 2**32, 37).astype("uint32")]


def choices():
    """Between products: the greatest elements and their places, an order, and writes at places that repeat."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("TopK", ["f", "k"], ["best", "places"]),
        helper.make_node("MatMul", ["best", "v"], ["y"]),
        helper.make_node("ScatterElements", ["f", "places", "best"], ["much"], axis=1, reduction="add"),
        helper.make_node("ScatterND", ["much", "rows", "f"], ["sums"], reduction="add"),
        helper.make_node("Relu", ["sums"], ["z"]),
    ]
    constants = {
        "w": numbers(4, 2, 3, 3),
        "k": np.array([12]),
        "v": numbers(12, 3, seed=1),
        "rows": np.array([[1], [-1]]),
    }
    outputs = [("y", "f4", (2, 3)), ("places", "i8", (2, 12)), ("z", "f4", (2, 80))]
    return make_model(nodes, [("x", "f4", (2, 2, 4, 5))], outputs, constants), [numbers(2, 2, 4, 5, seed=2)]


def one_place():
    """A look-up where there is one place to look: what is looked up by is not read."""
    nodes = [helper.make_node("Gather", ["x", "rows"], ["y"], axis=0)]
    return make_model(nodes, [("x", "f4", (1, 5)), ("rows", "i4", (3,))], [("y", "f4", (3, 5))]), [
        numbers(1, 5),
        np.array([0, -1, 0], "int32"),
    ]


def no_inputs():
    """Nothing to give: what comes out is a constant, and another of no dimensions."""
    constants = {"c": numbers(3, 4), "d": np.asarray(7, "int64")}
    nodes = [helper.make_node("Identity", ["c"], ["y"]), helper.make_node("Identity", ["d"], ["z"])]
    return make_model(nodes, [], [("y", "f4", (3, 4)), ("z", "i8", ())], constants), []


def odd_names():
    """Names that are words of C, code, macros, equal but for what C cannot spell, and an input nobody reads."""
    names = ["int", "x*/ int y; /*", "a.b", "a:b", "EOF", "arena", "class", "9th"]
    nodes = [
        helper.make_node("Sum", names[:-1], ["NULL"]),
        helper.make_node("Identity", ["int"], ["main"]),
        helper.make_node("Neg", ["NULL"], ['"quote\\']),
    ]
    model = make_model(
        nodes, [(n, "f4", (2, 3)) for n in names], [(n, "f4", (2, 3)) for n in ("NULL", "main", '"quote\\')]
    )
    return model, [numbers(2, 3, seed=k) for k in range(len(names))]


MODELS = {
    "convolutions": convolutions,
    "attention": attention,
    "integers": integers,
    "choices": choices,
    "one place": one_place,
    "no inputs": no_inputs,
    "odd names": odd_names,
}
