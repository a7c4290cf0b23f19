"""An LSTM unrolled over its steps, each a call of a cell. Source: ``relay.testing.lstm``.

Hochreiter and Schmidhuber, "Long short-term memory" (1997), with a forget gate. Each step has its own ``data`` and its
own weights.
"""

from __future__ import annotations

from byoc.annex.testing.init import create_workload
from byoc.annex.testing.layers import dense_add_bias
from byoc.ir.module import IRModule
from byoc.ir.types import TensorType, TupleType
from byoc.relay.analysis import free_vars
from byoc.relay.expr import Call, Function, Tuple, TupleGetItem, Var
from byoc.relay.op import add, multiply, sigmoid, split, tanh, zeros
from byoc.relay.scope_builder import ScopeBuilder
from byoc.runtime.core.ndarray import NDArray


def _weight_types(num_hidden: int, dtype: str) -> tuple[TensorType, TensorType]:
    return TensorType((4 * num_hidden, num_hidden), dtype), TensorType((4 * num_hidden,), dtype)


def lstm_cell(num_hidden: int, batch_size: int = 1, dtype: str = "float32", name: str = "") -> Function:
    """One step: (inputs, (h, c), weights and biases) to (h, (h, c)); h, c: [N, num_hidden]. Source: ``lstm_cell``."""
    state = TensorType((batch_size, num_hidden), dtype)
    weight, bias = _weight_types(num_hidden, dtype)
    gate_type = TensorType((batch_size, 4 * num_hidden), dtype)
    inputs, states = Var("inputs", state), Var("states", TupleType([state, state]))
    params = [Var("i2h_weight", weight), Var("i2h_bias", bias), Var("h2h_weight", weight), Var("h2h_bias", bias)]
    scope, units = ScopeBuilder(), 4 * num_hidden
    from_input = dense_add_bias(inputs, params[0], params[1], units, name=f"{name}i2h")
    from_state = dense_add_bias(TupleGetItem(states, 0), params[2], params[3], units, name=f"{name}h2h")
    i2h, h2h = scope.let(("i2h", gate_type), from_input), scope.let(("h2h", gate_type), from_state)
    gates = scope.let(("gates", gate_type), add(i2h, h2h))
    parts = scope.let(("slice_gates", TupleType([state] * 4)), split(gates, indices_or_sections=4, axis=1).astuple())
    taken, kept, new, shown = (
        scope.let((gate, state), activation(TupleGetItem(parts, index)))
        for index, (gate, activation) in enumerate(
            (("in_gate", sigmoid), ("forget_gate", sigmoid), ("in_transform", tanh), ("out_gate", sigmoid))
        )
    )
    next_c = scope.let(("next_c", state), add(multiply(kept, TupleGetItem(states, 1)), multiply(taken, new)))
    next_h = scope.let(("next_h", state), multiply(shown, tanh(next_c)))
    result = TupleType([state, TupleType([state, state])])
    scope.ret(scope.let(("ret", result), Tuple([next_h, Tuple([next_h, next_c])])))
    return Function([inputs, states, *params], scope.get(), result)


def get_net(iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32") -> Function:
    """The unrolled network: its inputs are [N, num_hidden] and called ``data``, its output [N, num_hidden].

    Source: ``lstm.get_net``.
    """
    state = TensorType((batch_size, num_hidden), dtype)
    pair = TupleType([state, state])
    weight, bias = _weight_types(num_hidden, dtype)
    scope = ScopeBuilder()
    first = scope.let(("zeros", state), zeros((batch_size, num_hidden), dtype))
    states, out = scope.let(("init_states", pair), Tuple([first, first])), first
    for step in range(iterations):
        weights = [
            Var(f"{way}_{step}_{what}", ty)
            for way in ("i2h", "h2h")
            for what, ty in (("weight", weight), ("bias", bias))
        ]
        cell = lstm_cell(num_hidden, batch_size, dtype, f"lstm_{step}")
        call = Call(cell, [Var("data", state), states, *weights])
        made = scope.let((f"call_{step}", TupleType([state, pair])), call)
        out = scope.let((f"out_{step}", state), TupleGetItem(made, 0))
        states = scope.let((f"states_{step}", pair), TupleGetItem(made, 1))
    scope.ret(out)
    body = scope.get()
    return Function(free_vars(body), body, state)


def get_workload(
    iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32"
) -> tuple[IRModule, dict[str, NDArray]]:
    """The network as a module, and its parameters. Source: ``lstm.get_workload``."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
