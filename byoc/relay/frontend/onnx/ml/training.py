"""One step of an optimiser. Source: Adagrad-1, Adam-1 and Momentum-1 of ai.onnx.preview.training.

Inputs are the learning rate, the number of the step, then tensors, their gradients and one or two lists of states, each
with as many entries; outputs are the new tensors and states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter

TRAINING = "ai.onnx.preview.training"
Step = Callable[[OnnxNode, RelayExpr, RelayExpr, Sequence[RelayExpr]], list[RelayExpr]]


def _each(node: OnnxNode, lists: int, step: Step) -> list[RelayExpr]:
    """*step* of each tensor with its gradient and states, *lists* inputs of each; their outputs list after list."""
    given = node.required_inputs()
    count, rest = divmod(len(given) - 2, lists)
    if rest or count < 1:
        raise node.error(f"has {len(given)} inputs, expected 2 and {lists} for each tensor")
    made = []
    for k in range(count):
        tensors = [given[2 + part * count + k] for part in range(lists)]
        dtype = node.dtype(tensors[0])
        rate, number = (relay.cast(_scalar(node, value), dtype) for value in given[:2])
        made.append(step(node, rate, number, tensors))
    return [outputs[part] for part in range(lists - 1) for outputs in made]


def _scalar(node: OnnxNode, value: RelayExpr) -> RelayExpr:
    return relay.reshape(value, []) if node.rank(value) else value


def _scaled(node: OnnxNode, value: RelayExpr, factor: float) -> RelayExpr:
    return relay.multiply(value, node.like(factor, value))


def _regularised(node: OnnxNode, tensor: RelayExpr, gradient: RelayExpr) -> RelayExpr:
    return relay.add(_scaled(node, tensor, node.attrs.float("norm_coefficient", 0.0)), gradient)


@converter("Adagrad", domain=TRAINING)
def _adagrad(node: OnnxNode) -> list[RelayExpr]:
    return _each(node, 3, _adagrad_step)


def _adagrad_step(node: OnnxNode, rate: RelayExpr, number: RelayExpr, tensors: Sequence[RelayExpr]) -> list[RelayExpr]:
    tensor, gradient, squares = tensors
    decay = relay.add(_scaled(node, number, node.attrs.float("decay_factor", 0.0)), node.like(1, number))
    gradient = _regularised(node, tensor, gradient)
    squares = relay.add(squares, relay.multiply(gradient, gradient))
    size = relay.add(relay.sqrt(squares), node.like(node.attrs.float("epsilon", 0.0), squares))
    step = relay.divide(relay.multiply(relay.divide(rate, decay), gradient), size)
    return [relay.subtract(tensor, step), squares]


@converter("Adam", domain=TRAINING)
def _adam(node: OnnxNode) -> list[RelayExpr]:
    return _each(node, 4, _adam_step)


def _adam_step(node: OnnxNode, rate: RelayExpr, number: RelayExpr, tensors: Sequence[RelayExpr]) -> list[RelayExpr]:
    tensor, gradient, first, second = tensors
    alpha, beta = node.attrs.float("alpha", 0.9), node.attrs.float("beta", 0.999)
    gradient = _regularised(node, tensor, gradient)
    first = relay.add(_scaled(node, first, alpha), _scaled(node, gradient, 1 - alpha))
    second = relay.add(_scaled(node, second, beta), _scaled(node, relay.multiply(gradient, gradient), 1 - beta))
    size = relay.add(relay.sqrt(second), node.like(node.attrs.float("epsilon", 0.0), second))
    one = node.like(1, number)
    left = [relay.subtract(one, relay.power(node.like(factor, number), number)) for factor in (alpha, beta)]
    corrected = relay.divide(relay.multiply(rate, relay.sqrt(left[1])), left[0])
    rate = relay.where(relay.greater(number, node.like(0, number)), corrected, rate)
    moved = relay.subtract(tensor, relay.multiply(rate, relay.divide(first, size)))
    return [_scaled(node, moved, 1 - node.attrs.float("norm_coefficient_post", 0.0)), first, second]


@converter("Momentum", domain=TRAINING)
def _momentum(node: OnnxNode) -> list[RelayExpr]:
    mode = node.attrs.string("mode")
    if mode not in ("standard", "nesterov"):
        raise node.error(f"mode is standard or nesterov, got {mode!r}")
    return _each(node, 3, _momentum_step)


def _momentum_step(node: OnnxNode, rate: RelayExpr, number: RelayExpr, tensors: Sequence[RelayExpr]) -> list[RelayExpr]:
    tensor, gradient, speed = tensors
    alpha, beta = node.attrs.float("alpha"), node.attrs.float("beta")
    gradient = _regularised(node, tensor, gradient)
    later = relay.greater(number, node.like(0, number))
    share = relay.where(later, node.like(beta, number), node.like(1, number))
    speed = relay.add(_scaled(node, speed, alpha), relay.multiply(share, gradient))
    step = speed
    if node.attrs.string("mode") == "nesterov":
        step = relay.add(gradient, _scaled(node, speed, alpha))
    return [relay.subtract(tensor, relay.multiply(rate, step)), speed]
