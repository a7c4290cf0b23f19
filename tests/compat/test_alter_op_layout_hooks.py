"""AlterOpLayout by hooks that a test sets, as Relay's own tests do: when they run, and when not."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def conv(tvm, relay):
    """A convolution with a relu, and the hook that doubles its weights."""
    x, w = relay.var("x", shape=(1, 8, 6, 6)), relay.var("w", shape=(8, 8, 3, 3))
    body = relay.nn.relu(relay.nn.conv2d(x, w, channels=8, kernel_size=(3, 3), padding=(1, 1)))
    calls = []

    def alter(attrs, inputs, tinfos, out_type):
        calls.append((attrs, tinfos, out_type))
        return relay.nn.conv2d(inputs[0], relay.multiply(inputs[1], relay.const(2.0, "float32")), **attrs)

    return tvm.IRModule.from_expr(relay.Function([x, w], body)), alter, calls


@pytest.fixture
def hooked(relay):
    """The attribute of an operator for a block."""
    from tvm.relay.testing.temp_op_attr import TempOpAttr

    return lambda f: TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", f)


def _count(relay, mod):
    return relay.analysis.list_op_freqs(mod).get("multiply", 0)


def test_a_sequence_runs_it_at_level_3_alone(tvm, relay, conv, hooked):
    mod, alter, calls = conv
    sequence = tvm.transform.Sequential([relay.transform.AlterOpLayout()])
    with hooked(alter):
        for level, expected in ((2, 0), (3, 1)):
            with tvm.transform.PassContext(opt_level=level):
                assert _count(relay, sequence(mod)) == expected
    assert len(calls) == 1
    assert calls[0][1][0].shape == (1, 8, 6, 6) and calls[0][2] == relay.TensorType((1, 8, 6, 6))


def test_called_by_itself_it_runs_at_any_level(relay, conv, hooked):
    mod, alter, _ = conv
    with hooked(alter):
        assert _count(relay, relay.transform.AlterOpLayout()(mod)) == 1
    assert _count(relay, relay.transform.AlterOpLayout()(mod)) == 0  # the hook is gone


def test_a_required_pass_runs_below_its_level_and_a_disabled_one_never(tvm, relay, conv, hooked):
    mod, alter, _ = conv
    sequence = tvm.transform.Sequential([relay.transform.AlterOpLayout()])
    with hooked(alter):
        with tvm.transform.PassContext(opt_level=0, required_pass=["AlterOpLayout"]):
            assert _count(relay, sequence(mod)) == 1
        with tvm.transform.PassContext(opt_level=3, disabled_pass=["AlterOpLayout"]):
            assert _count(relay, sequence(mod)) == 0


def test_a_build_at_level_3_runs_the_hook(tvm, relay, conv, hooked):
    mod, alter, _ = conv
    rng = np.random.default_rng(0)
    data, weight = (rng.random(s).astype("float32") for s in ((1, 8, 6, 6), (8, 8, 3, 3)))

    def result():
        with tvm.transform.PassContext(opt_level=3):
            lib = relay.build(mod, "llvm", params={"w": weight})
        run = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
        run.set_input("x", data)
        run.run()
        return run.get_output(0).numpy()

    plain = result()
    with hooked(alter):
        np.testing.assert_allclose(result(), 2 * plain, rtol=1e-4, atol=1e-4)


def test_a_list_of_passes_runs_at_level_3_in_relay_testing(relay, conv, hooked):
    mod, alter, _ = conv
    with hooked(alter):
        passes = [relay.transform.CanonicalizeOps(), relay.transform.AlterOpLayout()]
        func = relay.testing.run_opt_pass(mod["main"], passes)
    assert "multiply(" in func.astext()
