"""LSTM, GRU and RNN against ONNX Runtime: directions, lengths, activations, states, by the interpreter and compiled."""

from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INPUTS = {
    "LSTM": ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"),
    "GRU": ("X", "W", "R", "B", "sequence_lens", "initial_h"),
    "RNN": ("X", "W", "R", "B", "sequence_lens", "initial_h"),
}


@dataclass
class Case:
    """One layer: what is given beside X, W and R, its attributes, and its sizes."""

    op: str
    given: tuple[str, ...] = ("B",)
    attrs: dict[str, object] = field(default_factory=dict)
    steps: int = 5
    batch: int = 3
    inputs: int = 4
    hidden: int = 6
    opset: int = 14
    constant: bool = True

    def arrays(self) -> dict[str, np.ndarray]:
        directions = 2 if self.attrs.get("direction") == "bidirectional" else 1
        rows, state = GATES[self.op] * self.hidden, (directions, self.batch, self.hidden)
        shapes = {
            "X": (self.steps, self.batch, self.inputs),
            "W": (directions, rows, self.inputs),
            "R": (directions, rows, self.hidden),
            "B": (directions, 2 * rows),
            "initial_h": state,
            "initial_c": state,
            "P": (directions, 3 * self.hidden),
        }
        bound = 1.5 / self.hidden**0.5  # larger weights make the states chaotic, and rounding grows from step to step
        made = {
            n: np.random.default_rng(k).uniform(-bound, bound, s).astype("float32")
            for k, (n, s) in enumerate(shapes.items())
        }
        made["sequence_lens"] = np.minimum([self.steps, *range(1, self.batch)], self.steps).astype("int32")
        return {n: made[n] for n in INPUTS[self.op] if n in (*self.given, "X", "W", "R")}

    def model(self) -> onnx.ModelProto:
        arrays = self.arrays()
        outputs = ["Y", "Y_h", "Y_c"][: 3 if self.op == "LSTM" else 2]
        names = [n if n in arrays else "" for n in INPUTS[self.op]]
        node = helper.make_node(self.op, names, outputs, "layer", hidden_size=self.hidden, **self.attrs)
        run_time = [n for n in arrays if n in self.run_time()]
        graph = helper.make_graph(
            [node],
            "g",
            [value(n, arrays[n]) for n in run_time],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
            [numpy_helper.from_array(arrays[n], n) for n in arrays if n not in run_time],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def run_time(self) -> tuple[str, ...]:
        """The inputs that the model takes when it runs; the others are weights."""
        return ("X", "sequence_lens", "initial_h", "initial_c") if self.constant else INPUTS[self.op]


def value(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


ALL = ("B", "sequence_lens", "initial_h")
CASES = [
    *(Case(op, ()) for op in GATES),
    *(Case(op, ALL, {"direction": d}) for op in GATES for d in ("forward", "reverse", "bidirectional")),
    *(Case(op, ("B",), {"direction": "bidirectional"}, batch=1, steps=17, hidden=32) for op in GATES),
    *(Case(op, ("B",), {"clip": 0.3}) for op in GATES),
    *(Case(op, ("B", "initial_h"), {}, batch=1, steps=1, hidden=1) for op in GATES),
    *(Case(op, ALL, {"direction": "reverse"}, constant=False) for op in GATES),
    *(Case(op, ALL, {}, opset=7) for op in GATES),
    Case("LSTM", (*ALL, "initial_c", "P"), {"direction": "bidirectional"}),
    Case("LSTM", ("B", "initial_c", "P"), {"input_forget": 1}),
    Case("LSTM", ("B", "P"), {"activations": ["HardSigmoid", "Relu", "Softsign"]}),
    Case("LSTM", ("B",), {"activations": ["Sigmoid", "LeakyRelu", "Tanh"], "activation_alpha": [0.3]}),
    Case(
        "LSTM",
        ("B",),
        {
            "activations": ["Sigmoid", "Tanh", "Tanh", "HardSigmoid", "ScaledTanh", "Elu"],
            "activation_alpha": [0.4, 0.9, 0.5],
            "activation_beta": [0.3, 0.8],
            "direction": "bidirectional",
        },
    ),
    Case("GRU", ALL, {"linear_before_reset": 1, "direction": "bidirectional"}),
    Case("GRU", (), {"linear_before_reset": 1}),
    Case("GRU", ("B",), {"linear_before_reset": 1, "clip": 0.4}, batch=1, hidden=24),
    Case("GRU", ("B",), {"activations": ["Affine", "Softplus"], "activation_alpha": [0.5], "activation_beta": [0.2]}),
    Case("RNN", ("B",), {"activations": ["ThresholdedRelu"], "activation_alpha": [0.2]}),
    Case("RNN", ("B",), {"activations": ["Relu", "Tanh"], "direction": "bidirectional"}),
]


def name_of(case: Case) -> str:
    attrs = "-".join(str(v) for v in case.attrs.values())
    return f"{case.op}-{'-'.join(case.given)}-{attrs}-{case.steps}-{case.batch}-{case.opset}-{case.constant}"


def both(case: Case) -> tuple[onnx.ModelProto, dict[str, np.ndarray], list[np.ndarray]]:
    model = case.model()
    inputs = {i.name: case.arrays()[i.name] for i in model.graph.input}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return model, inputs, session.run(None, inputs)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_recurrent_layer_gives_what_onnxruntime_gives(case):
    model, inputs, expected = both(case)
    got = evaluate(import_onnx(model), inputs)
    for found, wanted in zip(got, expected, strict=True):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.needs_cc
@pytest.mark.parametrize("case", CASES[::3], ids=name_of)
def test_a_compiled_recurrent_layer_gives_what_onnxruntime_gives(case):
    model, inputs, expected = both(case)
    library = byoc.compile(model)
    for found, wanted in zip(library.run(inputs), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    "attrs, message",
    [
        ({"direction": "sideways"}, "direction is one of forward, reverse, bidirectional, got 'sideways'"),
        ({"activations": ["Tanh", "Tanh"]}, "3 activations are needed, got Tanh, Tanh"),
        ({"activations": ["Tanh", "Tanh", "Sine"]}, "activation 'Sine' is unknown; there are Relu, Tanh"),
    ],
)
def test_what_a_recurrent_layer_cannot_be_is_said(attrs, message):
    with pytest.raises(ImportModelError, match="layer.*LSTM") as caught:
        import_onnx(Case("LSTM", (), attrs).model())
    assert message in str(caught.value)


@pytest.mark.needs_cc
@pytest.mark.parametrize("op", GATES)
def test_without_a_state_any_number_of_rows_begins_with_zeros(op):
    case = Case(op, ())
    model = case.model()
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "rows"
    library = byoc.compile(model)
    assert library.report["host_fallbacks"] == {}
    for case.batch in (1, 4):
        _, inputs, expected = both(case)
        for found, wanted in zip(library.run(inputs), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.needs_cc
@pytest.mark.parametrize("op", GATES)
def test_steps_and_rows_of_any_number_give_the_same_bits_on_any_number_of_threads(op):
    case = Case(op, ("B", "initial_h", "initial_c", "sequence_lens"), {"direction": "bidirectional"}, hidden=20)
    model = case.model()
    for given in model.graph.input:
        sizes = {"X": {0: "steps", 1: "rows"}, "sequence_lens": {0: "rows"}}.get(given.name, {1: "rows"})
        for axis, name in sizes.items():
            given.type.tensor_type.shape.dim[axis].dim_param = name
    library = byoc.compile(model)
    assert library.report["host_fallbacks"] == {}
    for case.steps, case.batch in ((7, 3), (2, 2), (11, 1), (1, 5)):
        _, inputs, expected = both(case)
        found = [library.executor(threads)(inputs) for threads in (1, 2, 3)]
        for one, *others, wanted in zip(*found, expected, strict=True):
            np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=2e-6)
            assert all(one.tobytes() == other.tobytes() for other in others)


@pytest.mark.needs_cc
@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("given", [True, False], ids=["lengths of the run", "lengths of the model"])
def test_a_row_without_a_step_ends_with_zeros(op, given):
    case = Case(op, (*ALL, "initial_c"), {"direction": "bidirectional"}, constant=False)
    model, inputs = case.model(), case.arrays()
    lengths = inputs["sequence_lens"]
    lengths[0] = 0
    if not given:
        kept = [v for v in model.graph.input if v.name != "sequence_lens"]
        model.graph.ClearField("input")
        model.graph.input.extend(kept)
        model.graph.initializer.append(numpy_helper.from_array(lengths, "sequence_lens"))
    feeds = {v.name: inputs[v.name] for v in model.graph.input}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for found, wanted in zip(byoc.compile(model).run(feeds), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-6)
