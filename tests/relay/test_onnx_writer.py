"""What is written as ONNX is what ONNX Runtime computes: operator by operator on their samples, and whole models."""

import pathlib

import numpy as np
import onnx
import pytest

import byoc
from byoc import relay
from byoc.contract.support_table import sample_call
from byoc.driver.pipeline import optimize
from byoc.ir.op import OPS
from byoc.ir.types import tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Function, Var
from byoc.relay.interpreter import evaluate
from byoc.relay.onnx_writer import UnwritableError, to_onnx, unwritable
from byoc.relay.onnx_writer.rules import rules
from byoc.relay.onnx_writer.write import PortNames, written_model
from byoc.relay.traverse import post_order
from byoc.runtime.core.ndarray import numpy_dtype

ort = pytest.importorskip("onnxruntime")
ROOT = pathlib.Path(__file__).parents[2]
MODELS = ROOT.parent / "shared" / "models"
NO_KERNEL = ("NOT_IMPLEMENTED", "INVALID_GRAPH")  # ONNX Runtime has not every operator for every dtype


def arrays_for(params, seed=0):
    rng = np.random.default_rng(seed)
    for param in params:
        ty = param.checked_type
        dtype = numpy_dtype(ty.dtype)
        shape = [d if isinstance(d, int) else 2 for d in ty.shape]
        yield (rng.uniform(0.1, 2, shape) if dtype.kind == "f" else rng.integers(0, 3, shape)).astype(dtype)


def ran(function, arrays, write=to_onnx):
    """What ONNX Runtime gives for *function* written as ONNX."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(write(function).SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {f"x{k}": array for k, array in enumerate(arrays)})


def same(found, expected):
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        other = np.asarray(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one.astype("float64"), other.astype("float64"), rtol=1e-4, atol=1e-5)


# those that stand in branches, behind a look at indices, or before what reads the rows that count:
# tests/driver/test_opt_control.py
AMONG_OTHERS = {
    "gather",
    "gather_nd",
    "scatter_elements",
    "scatter_nd",
    "check_condition",
    "sequence.any_rank",
    "vision.all_class_non_max_suppression",
}
OF_MODELS = sorted(n for n in {*rules(True)} - {*rules()} - AMONG_OTHERS | {"divide"} if not n.startswith("dyn."))
LENGTHS = ("check_lengths", "reverse_sequence")


def of_model(function):
    """*function* as :func:`byoc.opt` writes models, for which there are more rules."""
    counts = len(function.params), len(tensor_types(infer_function(function).body.checked_type))
    ports = PortNames(*([f"{letter}{k}" for k in range(n)] for letter, n in zip("xy", counts, strict=True)))
    return written_model(function, "model", ports)


@pytest.mark.parametrize("name", sorted(rules()))
def test_an_operator_that_is_written_gives_its_numbers(name):
    written = 0
    for sample in OPS[name].samples:
        call = sample_call(OPS[name], sample)
        if unwritable(call) is not None:
            with pytest.raises(UnwritableError):
                to_onnx(Function([n for n in post_order(call) if isinstance(n, Var)], call))
            continue
        function = Function([n for n in post_order(call) if isinstance(n, Var)], call)
        arrays = list(arrays_for(function.params))
        try:
            found = ran(function, arrays)
        except Exception as error:
            assert any(word in str(error) for word in NO_KERNEL), error
            continue
        same(found, evaluate(byoc.IRModule.from_expr(function), arrays))
        written += 1
    assert written or name in NOWHERE, f"no sample of {name} is written and run"


@pytest.mark.parametrize("name", OF_MODELS)
def test_an_operator_of_models_gives_its_numbers(name):
    written = 0
    for sample in OPS[name].samples:
        call = sample_call(OPS[name], sample)
        function = Function([n for n in post_order(call) if isinstance(n, Var)], call)
        arrays = [
            np.asarray(a + a.dtype.type(a.dtype.kind in "iu" and name not in LENGTHS))
            for a in arrays_for(function.params)
        ]  # nothing / 0; no sequence is longer than its axis
        try:
            found = ran(function, arrays, of_model)
        except UnwritableError:
            continue
        except Exception as error:
            assert any(word in str(error) for word in NO_KERNEL), error
            continue
        same(found, evaluate(byoc.IRModule.from_expr(function), arrays))
        written += 1
    assert written, f"no sample of {name} is written and run"


NOWHERE = {"tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh", "erf"}  # their samples are of float64
NOWHERE |= {"nn.pad"}  # its samples give the value as an argument


@pytest.mark.parametrize("name", ["tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh", "erf"])
def test_functions_of_float32(name):
    x = relay.var("x", shape=(3, 5))
    function = Function([x], getattr(relay, name)(relay.multiply(x, relay.const(np.float32(0.4)))))
    arrays = [np.linspace(-1, 1, 15, dtype="float32").reshape(3, 5)]
    same(ran(function, arrays), evaluate(byoc.IRModule.from_expr(function), arrays))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pads(mode):
    x = relay.var("x", shape=(3, 5))
    function = Function([x], relay.nn.pad(x, ((1, 0), (2, 1)), pad_value=0.5, pad_mode=mode))
    arrays = [np.random.default_rng(0).standard_normal((3, 5)).astype("float32")]
    same(ran(function, arrays), evaluate(byoc.IRModule.from_expr(function), arrays))


def test_tuples_composites_and_free_sizes():
    n = relay.Any(name="n")
    x, y = relay.var("x", shape=(n, 4)), relay.var("y", shape=(n, 4))
    a, b = relay.var("a", shape=(n, 4)), relay.var("b", shape=(n, 4))
    inner = Function([a, b], relay.nn.relu(relay.subtract(a, b))).with_attr("Composite", "acme.sub_relu")
    both = relay.concatenate([relay.Call(inner, [x, y]), y], axis=1)
    parts = relay.split(both, 2, axis=1)
    function = Function([x, y], relay.Tuple([parts[0], both, parts[1]]))
    model = to_onnx(function)
    assert [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == ["n", 4]
    arrays = [np.random.default_rng(k).standard_normal((3, 4)).astype("float32") for k in range(2)]
    first = np.maximum(arrays[0] - arrays[1], 0)
    same(ran(function, arrays), [first, np.hstack([first, arrays[1]]), arrays[1]])


def test_what_has_no_rule_is_said():
    x = relay.var("x", shape=(3, 4))
    function = Function([x], relay.sort(x))
    with pytest.raises(UnwritableError, match="sort has no rule"):
        to_onnx(function)


@pytest.mark.parametrize("name", ["face_rfb_320", "mnist", "style_candy"])
def test_a_model_read_and_written_again_gives_the_same(name):
    path = MODELS / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    shapes = {"inputImage": (1, 3, 720, 720)} if name == "style_candy" else None
    main = optimize(byoc.import_onnx(path, shapes=shapes))["main"]
    options = ort.SessionOptions()
    options.log_severity_level = 4
    own = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    arrays = list(arrays_for(main.params))
    found = ran(main, arrays)
    expected = own.run(None, {i.name: a for i, a in zip(own.get_inputs(), arrays, strict=True)})
    for one, other in zip(found, expected, strict=True):
        scale = max(1.0, float(np.max(np.abs(other))))
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * scale)
    onnx.checker.check_model(to_onnx(main), full_check=True)
