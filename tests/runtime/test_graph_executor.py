"""The graph executor over a small hand-written graph and a module of Python functions."""

import numpy as np
import pytest

from byoc.runtime import Graph, GraphExecutor, Module
from byoc.runtime.core.errors import InputError, UserError
from byoc.runtime.executors import graph_executor


def graph(dim=3, dynamic=False):
    """out0 = reshape(x + y), out1 = double(x + y); with named batch when *dim* is a name."""
    tail = None if dynamic else dim
    return {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            {"op": "null", "name": "y", "inputs": []},
            {"op": "tvm_op", "name": "add", "attrs": {"func_name": "add"}, "inputs": [[0, 0, 0], [1, 0, 0]]},
            {"op": "tvm_op", "name": "r", "attrs": {"func_name": "__nop"}, "inputs": [[2, 0, 0]]},
            {
                "op": "tvm_op",
                "name": "double",
                "attrs": {"func_name": "double", "dynamic": "1" if dynamic else "0"},
                "inputs": [[2, 0, 0]],
            },
        ],
        "arg_nodes": [0, 1],
        "heads": [[3, 0, 0], [4, 0, 0]],
        "node_row_ptr": [0, 1, 2, 3, 4, 5],
        "attrs": {
            "shape": ["list_shape", [[dim, 2], [1, 2], [dim, 2], [1, dim, 2], [tail, 2]]],
            "dltype": ["list_str", ["float32"] * 5],
        },
    }


class Double:
    def __call__(self, source, target):
        np.multiply(source.numpy(), 2, out=target.numpy())

    def call_returning(self, inputs):
        return [inputs[0] * 2]


class Functions(Module):
    type_key = "python"
    symbols = ("add", "double")

    def get_function(self, name, query_imports=False):
        return {"add": lambda a, b, out: np.add(a.numpy(), b.numpy(), out=out.numpy()), "double": Double()}.get(name)


def executor(**options):
    return GraphExecutor(Graph(graph(**options)), Functions())


X, Y = np.arange(6, dtype="float32").reshape(3, 2), np.ones((1, 2), "float32")


@pytest.mark.parametrize("options", [{}, {"dim": "N"}, {"dynamic": True}], ids=["static", "named", "dynamic"])
def test_one_call_sets_runs_and_returns_copies(options):
    run = executor(**options)
    first, second = run({"x": X, "y": Y})
    np.testing.assert_array_equal(first, (X + 1)[None])
    np.testing.assert_array_equal(second, (X + 1) * 2)
    run({"x": X * 0, "y": Y})
    np.testing.assert_array_equal(second, (X + 1) * 2)


@pytest.mark.parametrize("large", [1, 1 << 40], ids=["given away", "copied"])
def test_outputs_are_the_callers_whatever_runs_later(large, monkeypatch):
    """In the order in which a caller may use them: kept, written to, given back as an input, read once more."""
    monkeypatch.setattr(graph_executor, "LARGE_OUTPUT", large)
    run = executor(dim="N")
    first, second = run({"x": X, "y": Y})
    third, fourth = run({"x": second, "y": Y})
    np.testing.assert_array_equal(second, (X + 1) * 2)
    np.testing.assert_array_equal(fourth, (second + 1) * 2)
    second[:] = -1
    again = run({"x": second, "y": Y})[1]
    np.testing.assert_array_equal(again, np.zeros_like(X))
    np.testing.assert_array_equal(fourth, ((X + 1) * 2 + 1) * 2)
    outputs = [first, second, third, fourth, again]
    assert not any(np.may_share_memory(a, b) for k, a in enumerate(outputs) for b in outputs[:k])
    run.set_input("x", X)
    run.run()
    np.testing.assert_array_equal(run.get_output(1).numpy(), (X + 1) * 2)
    np.testing.assert_array_equal(again, np.zeros_like(X))
    two = run({"x": X[:1], "y": Y})[1]
    np.testing.assert_array_equal(two, (X[:1] + 1) * 2)
    np.testing.assert_array_equal(again, np.zeros_like(X))


def test_inputs_are_set_by_name_or_position_and_outputs_are_read():
    run = executor()
    run.set_input(0, X)
    run.set_input("y", Y)
    run.run()
    np.testing.assert_array_equal(run.get_output(1).numpy(), (X + 1) * 2)
    assert (run.get_num_inputs(), run.get_num_outputs()) == (2, 2)


def test_a_named_dimension_may_change_between_runs():
    run = executor(dim="N")
    for n in (1, 5, 2, 5):
        x = np.full((n, 2), n, "float32")
        assert run({"x": x, "y": Y})[1].tolist() == ((x + 1) * 2).tolist()


def test_what_does_not_fit_is_named():
    run = executor()
    with pytest.raises(InputError, match="input 'x', 'y' is missing"):
        run.run()
    with pytest.raises(InputError, match="no input 'z'; its inputs are x, y"):
        run.set_input("z", X)
    with pytest.raises(InputError, match=r"input 'x': expected shape \[3, 2\], got \[4, 2\]"):
        run({"x": np.zeros((4, 2), "float32"), "y": Y})
    with pytest.raises(InputError, match=r"input 'x': expected dtype float32, got float64; convert it with \.astype"):
        run({"x": X.astype("float64"), "y": Y})


def test_a_size_that_two_inputs_share_must_agree():
    data = graph(dim="N")
    data["attrs"]["shape"][1][1] = ["N", 2]
    run = GraphExecutor(Graph(data), Functions())
    with pytest.raises(InputError, match=r"input 'y': expected shape \[N, 2\] with N=3, got \[4, 2\]"):
        run({"x": X, "y": np.zeros((4, 2), "float32")})


def test_a_reshape_shares_the_storage_of_its_input():
    run = executor()
    run({"x": X, "y": Y})
    buffers = run._buffers
    assert np.shares_memory(buffers[(2, 0)], buffers[(3, 0)])


def test_a_tensor_larger_than_the_machine_is_refused_before_memory_is_taken():
    data = graph()
    data["attrs"]["shape"][1][4] = [1 << 40, 1 << 40]
    run = GraphExecutor(Graph(data), Functions())
    found = r"double: float32\[1099511627776, 1099511627776\] takes 4,\d+.* bytes, this machine"
    with pytest.raises(UserError, match=found):
        run({"x": X, "y": Y})


def test_intermediates_larger_than_the_machine_together_are_refused(monkeypatch):
    data = graph()
    data["heads"] = [[4, 0, 0]]
    monkeypatch.setattr("byoc.runtime.graph.executor_base.physical_memory", lambda: 32)
    with pytest.raises(UserError, match=r"the values between the model's nodes take 64 bytes, this machine has 32"):
        GraphExecutor(Graph(data), Functions())({"x": X, "y": Y})


def test_a_node_that_runs_out_of_memory_is_named():
    class Hungry(Functions):
        def get_function(self, name, query_imports=False):
            def take(*arrays):
                raise MemoryError("Unable to allocate 1 PiB")

            return take if name == "add" else super().get_function(name)

    with pytest.raises(UserError, match="add: this machine has too little memory .Unable to allocate 1 PiB"):
        GraphExecutor(Graph(graph()), Hungry())({"x": X, "y": Y})


class Chain(Module):
    """``turn`` returns a view of its input, in a shape known only afterwards; the others are planned as usual."""

    type_key = "python"
    symbols = ("one_more", "turn", "negate")

    class Turn:
        def call_returning(self, inputs):
            return [inputs[0].T]

    def get_function(self, name, query_imports=False):
        return {
            "turn": self.Turn(),
            "one_more": lambda a, out: np.add(a.numpy(), 1, out=out.numpy()),
            "negate": lambda a, out: np.negative(a.numpy(), out=out.numpy()),
        }.get(name)


def test_a_view_of_unknown_shape_survives_what_is_later_stored_in_the_memory_of_its_source():
    def call(function, source, dynamic="0"):
        attrs = {"func_name": function, "dynamic": dynamic}
        return {"op": "tvm_op", "name": function, "attrs": attrs, "inputs": [[source, 0, 0]]}

    calls = [call("one_more", 0), call("turn", 1, "1"), call("negate", 0), call("negate", 3)]
    shapes = [[3, 2], [3, 2], [None, None], [3, 2], [3, 2]]
    run = GraphExecutor(
        Graph(
            {
                "nodes": [{"op": "null", "name": "x", "inputs": []}, *calls],
                "arg_nodes": [0],
                "heads": [[2, 0, 0], [4, 0, 0]],
                "node_row_ptr": list(range(6)),
                "attrs": {"shape": ["list_shape", shapes], "dltype": ["list_str", ["float32"] * 5]},
            }
        ),
        Chain(),
    )
    turned, twice = run({"x": X})
    np.testing.assert_array_equal(turned, (X + 1).T)
    np.testing.assert_array_equal(twice, X)
