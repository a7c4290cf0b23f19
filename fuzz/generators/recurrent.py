"""Proposals of recurrences: RNN, GRU and LSTM with every optional input left out, constant, or computed."""

from __future__ import annotations

import numpy as np

from fuzz.generators.draft import Draft, NotApplicable, Proposal, proposals

PROPOSALS: list[Proposal] = []
proposal = proposals(PROPOSALS)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ACTIVATIONS = {"RNN": 1, "GRU": 2, "LSTM": 3}
NAMES = ("Sigmoid", "Tanh", "Relu")


@proposal(1)
def recurrence(d: Draft) -> None:
    op = d.rng.choice(tuple(GATES))
    a = d.pick(("float32",), (3,), lambda n: 2 not in d.free_axes(n) and 0 not in d.shape(n))
    steps, batch, width = d.shape(a)
    if d.free_axes(a) - {1} or steps > 12 or width > 40:
        raise NotApplicable
    hidden, way = d.rng.choice((1, 1, 2, 5, 8, 17)), d.rng.choice(("forward", "reverse", "bidirectional"))
    ways, gates, free = 2 if way == "bidirectional" else 1, GATES[op], bool(d.free_axes(a))
    inputs = [a, d.floats(ways, gates * hidden, width), d.floats(ways, gates * hidden, hidden)]
    optional = [d.floats(ways, 2 * gates * hidden) if d.rng.random() < 0.6 else ""]
    lengths = np.asarray(d.numbers.integers(1, steps + 1, batch), "int32")
    optional.append(d.weight(lengths) if not free and d.rng.random() < 0.4 else "")
    for _ in range(2 if op == "LSTM" else 1):
        optional.append(state(d, ways, batch, hidden) if not free and d.rng.random() < 0.4 else "")
    if op == "LSTM":
        optional.append(d.floats(ways, 3 * hidden) if d.rng.random() < 0.3 else "")
    while optional and not optional[-1]:
        optional.pop()
    attrs: dict[str, object] = {"hidden_size": hidden, "direction": way}
    if op == "GRU":
        attrs["linear_before_reset"] = d.rng.randrange(2)
    if op == "LSTM":
        attrs["input_forget"] = d.rng.choice((0, 0, 1))
    if d.rng.random() < 0.3:
        attrs["activations"] = [d.rng.choice(NAMES) for _ in range(ACTIVATIONS[op] * ways)]
    if d.rng.random() < 0.2:
        attrs["clip"] = 0.8
    d.add(op, inputs + optional, 3 if op == "LSTM" else 2, **attrs)


def state(d: Draft, *shape: int) -> str:
    """A first state: a constant, or a new input of the model."""
    if d.rng.random() < 0.5:
        return d.floats(*shape)
    d.add_input(shape, "float32", False)
    return d.made[-1]
