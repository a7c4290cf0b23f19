"""What roundings of the inputs make of a result excuses a backend; what is a mistake stays one."""

import numpy as np

from byoc import relay
from byoc.contract import get_backend
from byoc.ir.module import IRModule
from byoc.relay.op.attributes.recurrent import RNNSequenceAttrs
from byoc.relay.op.nn.recurrent import rnn_sequence
from byoc.testing.checks import Examiner
from byoc.testing.core.case import Case
from byoc.testing.core.conditioning import MOST, allowed_scale, movements


def chaotic():
    """A recurrent layer whose weights make much of each rounding."""
    rng = np.random.default_rng(0)
    shapes = (13, 3, 19), (19, 19), (3, 19)
    params = [relay.var(f"x{k}", shape=shape) for k, shape in enumerate(shapes)]
    function = relay.Function(params, rnn_sequence(params, RNNSequenceAttrs()).astuple())
    typed = relay.transform.InferType()(IRModule.from_expr(function))["main"]
    feed = tuple(rng.uniform(-2, 2, shape).astype("float32") for shape in shapes)
    return Case("chaotic", "nn.rnn_sequence", "sample", typed, (feed,))


def examiner():
    return Examiner(get_backend("json"))


def test_what_roundings_of_the_inputs_make_is_no_mistake():
    case = chaotic()
    wanted = examiner().wanted(case, case.feeds[0])
    moves = examiner().moves(case, case.feeds[0], wanted)
    assert moves()[0] > 2e-5  # more than the tolerance
    off = [np.array(w) for w in wanted[1]]
    off[0][-1, 0, 0] += moves()[0]
    assert "off by" in examiner().wrong(off, wanted)
    assert examiner().wrong(off, wanted, moves) is None
    off[0][-1, 0, 0] += 10 * moves()[0]
    assert "off by" in examiner().wrong(off, wanted, moves)


def test_a_well_conditioned_result_is_held_to_the_tolerance():
    x = relay.var("x", shape=(5,))
    function = relay.transform.InferType()(IRModule.from_expr(relay.Function([x], relay.tanh(x))))["main"]
    array = np.linspace(-1, 1, 5).astype("float32")
    (move,) = movements(function, [array], [np.tanh(array)])
    assert 0 < move < 1e-6 and allowed_scale(2e-5, move, np.tanh(array)) == 2e-5


def test_a_jump_excuses_nothing():
    x = relay.var("x", shape=(3,))
    function = relay.transform.InferType()(IRModule.from_expr(relay.Function([x], relay.floor(x))))["main"]
    array = np.array([1, 2, 3], "float32")
    (move,) = movements(function, [array], [array])
    assert move == 1 and allowed_scale(2e-5, move, array) == 2e-5
    assert allowed_scale(2e-5, 3 * MOST * 2e-5, array) > 2e-5
