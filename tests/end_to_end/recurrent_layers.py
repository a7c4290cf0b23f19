"""Recurrent layers as models of one node, with what ONNX Runtime gives for them: the axes along which tests vary them.

ONNX Runtime has no ``layout=1``; it gets the layer with the steps first, and its answer is transposed. Where a node
says nothing of an activation's numbers they are those of the ONNX operator of that name; ONNX Runtime (1.30, 1.32)
takes 0 for some, so that they are given to it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
HIDDEN, BATCH, STEPS = (1, 2, 5, 8), (1, 3), (1, 3)
PRESENCE = ("none", "constant", "input")
DIRECTIONS = ("forward", "reverse", "bidirectional")
NAMES = (
    "Relu",
    "Tanh",
    "Sigmoid",
    "Affine",
    "LeakyRelu",
    "ThresholdedRelu",
    "ScaledTanh",
    "HardSigmoid",
    "Elu",
    "Softsign",
    "Softplus",
)
FEATURES = 3
UNKNOWN_DEFAULTS = {"Affine": (1.0, 0.0), "ThresholdedRelu": (1.0, None), "ScaledTanh": (1.0, 1.0)}


@dataclass(frozen=True)
class Layer:
    """A recurrent layer; *lengths* and *states* say whether they are left out, constants or inputs."""

    op: str
    hidden: int
    batch: int
    steps: int
    lengths: str = "none"
    states: str = "none"
    peepholes: bool = False
    attrs: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        attrs = "-".join(f"{k}={'+'.join(v) if isinstance(v, list) else v}" for k, v in self.attrs.items())
        parts = (self.op, self.hidden, self.batch, self.steps, self.lengths, self.states, self.peepholes, attrs)
        return "-".join(map(str, parts))

    @property
    def batch_first(self) -> bool:
        return self.attrs.get("layout") == 1

    def arrays(self, batch_first: bool) -> dict[str, np.ndarray]:
        """Every input that the layer has, small enough that rounding does not grow from step to step."""
        directions = 2 if self.attrs.get("direction") == "bidirectional" else 1
        rows, state = GATES[self.op] * self.hidden, (directions, self.batch, self.hidden)
        shapes = {
            "X": (self.steps, self.batch, FEATURES),
            "W": (directions, rows, FEATURES),
            "R": (directions, rows, self.hidden),
            "B": (directions, 2 * rows),
        }
        shapes |= {"initial_h": state} if self.states != "none" else {}
        shapes |= {"initial_c": state} if self.states != "none" and self.op == "LSTM" else {}
        shapes |= {"P": (directions, 3 * self.hidden)} if self.peepholes else {}
        made = {
            n: np.random.default_rng(k).uniform(-0.7, 0.7, s).astype("float32")
            for k, (n, s) in enumerate(shapes.items())
        }
        if self.lengths != "none":
            made["sequence_lens"] = np.array([1 + (k + 1) % self.steps for k in range(self.batch)], "int32")
        if batch_first:
            made |= {n: np.swapaxes(made[n], 0, 1).copy() for n in ("X", "initial_h", "initial_c") if n in made}
        return {n: made[n] for n in INPUTS if n in made}

    def feeds(self) -> dict[str, np.ndarray]:
        """What the model takes when it runs."""
        return {n: a for n, a in self.arrays(self.batch_first).items() if n in self._run_time()}

    def model(self) -> ModelProto:
        """The layer as a model."""
        return self._model(self.batch_first, self.attrs)

    def expected(self) -> list[np.ndarray]:
        """What ONNX Runtime gives."""
        attrs = {k: v for k, v in self.attrs.items() if k != "layout"} | _stated(self.attrs.get("activations", []))
        data = self._model(False, attrs).SerializeToString()
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        arrays = self.arrays(False)
        first, *states = session.run(None, {n: arrays[n] for n in self._run_time() if n in arrays})
        if not self.batch_first:
            return [first, *states]
        return [first.transpose(2, 0, 1, 3), *(np.swapaxes(s, 0, 1) for s in states)]

    def _run_time(self) -> tuple[str, ...]:
        lengths = ("sequence_lens",) if self.lengths == "input" else ()
        return ("X", *lengths, *(("initial_h", "initial_c") if self.states == "input" else ()))

    def _model(self, batch_first: bool, attrs: dict[str, object]) -> ModelProto:
        arrays = self.arrays(batch_first)
        outputs = ["Y", "Y_h", "Y_c"][: 3 if self.op == "LSTM" else 2]
        names = [n if n in arrays else "" for n in (INPUTS if self.op == "LSTM" else INPUTS[:6])]
        node = helper.make_node(self.op, names, outputs, "layer", hidden_size=self.hidden, **attrs)
        given = [n for n in arrays if n in self._run_time()]
        graph = helper.make_graph(
            [node],
            "g",
            [
                helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(arrays[n].dtype), arrays[n].shape)
                for n in given
            ],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
            [numpy_helper.from_array(arrays[n], n) for n in arrays if n not in given],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def _stated(activations: object) -> dict[str, object]:
    """The numbers of *activations*, all of one name, where ONNX Runtime does not know them."""
    names = list(activations)  # type: ignore[call-overload]
    if not names or names[0] not in UNKNOWN_DEFAULTS:
        return {}
    alpha, beta = UNKNOWN_DEFAULTS[names[0]]
    betas = {} if beta is None else {"activation_beta": [beta] * len(names)}
    return {"activation_alpha": [alpha] * len(names), **betas}


def every_size() -> Iterator[Layer]:
    """Every operator at every size, with lengths and states in each way; the attributes are drawn."""
    grid = itertools.product(GATES, HIDDEN, BATCH, STEPS, PRESENCE, PRESENCE)
    for k, (op, hidden, batch, steps, lengths, states) in enumerate(grid):
        yield _with_drawn_attributes(Layer(op, hidden, batch, steps, lengths, states), random.Random(k))


def every_attribute() -> Iterator[Layer]:
    """Every direction and layout with every attribute by itself, and every activation."""
    for op, direction, layout in itertools.product(GATES, DIRECTIONS, (0, 1)):
        layer = Layer(op, 5, 3, 3, "constant", "input", attrs={"direction": direction, "layout": layout})
        yield layer
        for attrs in ({"clip": 0.3}, *_OWN_ATTRIBUTES[op]):
            yield replace(layer, attrs={**layer.attrs, **attrs})
        if op == "LSTM":
            yield replace(layer, peepholes=True)
    for op, name in itertools.product(GATES, NAMES):
        count = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
        yield Layer(op, 2, 1, 3, attrs={"activations": [name] * count})


_OWN_ATTRIBUTES: dict[str, tuple[dict[str, object], ...]] = {
    "LSTM": ({"input_forget": 1},),
    "GRU": ({"linear_before_reset": 1},),
    "RNN": (),
}


def _with_drawn_attributes(layer: Layer, rng: random.Random) -> Layer:
    attrs: dict[str, object] = {"direction": rng.choice(DIRECTIONS)}
    attrs |= {"layout": 1} if rng.random() < 0.3 else {}
    attrs |= {"clip": 0.4} if rng.random() < 0.3 else {}
    for own in _OWN_ATTRIBUTES[layer.op]:
        attrs |= own if rng.random() < 0.4 else {}
    return replace(layer, attrs=attrs, peepholes=layer.op == "LSTM" and rng.random() < 0.4)
