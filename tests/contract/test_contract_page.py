"""What ``docs/guides/contract.md`` says of a region's life, watched from inside a backend."""

import threading
from typing import ClassVar

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.contract import Backend, constraints, register_backend
from byoc.driver.vm import compile_module
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.ir.types import Any, TensorType
from byoc.relay.traverse import post_order
from byoc.runtime import Module, cpu, fill_outputs, load, opened, register_module_loader, sealed
from byoc.runtime.vm import VirtualMachine

pytestmark = pytest.mark.needs_cc
NAME = "test_life"
W = np.linspace(-1, 1, 32, dtype="float32").reshape(8, 4)


class Life(Module):
    """exp of its input plus a constant row, and exp alone: two outputs. It writes down what happens to it."""

    type_key = NAME
    log: ClassVar[list] = []
    arrays_seen: ClassVar[list] = []

    def __init__(self, symbol):
        super().__init__()
        self.symbols = (symbol,)

    def constants(self):
        return {self.symbols[0]: [f"{self.symbols[0]}_row"]}

    def initialize(self, symbol, constants):
        self.log.append(("initialize", symbol, threading.current_thread().name))
        self.row = constants[0].numpy()
        assert not self.row.flags.writeable

    def unavailable(self):
        self.log.append(("unavailable",))
        return None

    def get_function(self, name, query_imports=False):
        self.log.append(("get_function", name))
        return self.run if name in self.symbols else None

    def run(self, *arrays):
        x, both, alone = (a.numpy() for a in arrays)
        self.log.append(("run", threading.current_thread().name))
        self.arrays_seen.append([x, both, alone])
        fill_outputs([both, alone], [np.exp(x) + self.row, np.exp(x)])

    def save(self):
        return sealed(NAME, 1, {"symbol": self.symbols[0].encode()})

    @classmethod
    def load(cls, members):
        cls.log.append(("load", threading.current_thread().name))
        return cls(opened(members, NAME, 1)[1]["symbol"].decode())


class LifeBackend(Backend):
    name = NAME
    constraints = (constraints.operators("exp", "add"), constraints.dtypes("float32"))

    def optimize(self, region):
        Life.log.append(("optimize", threading.current_thread().name))
        return region

    def compile(self, function, options):
        Life.log.append(("compile", threading.current_thread().name))
        assert {"Compiler", "global_symbol"} <= set(function.attrs) and function.checked_type is not None
        module = Life(str(function.attrs["global_symbol"]))
        row = next(n for n in post_order(function.body) if isinstance(n, relay.Constant))
        module.constant_arrays = {module.constants()[module.symbols[0]][0]: row.data}
        return module


@pytest.fixture
def life(forget):
    Life.log.clear()
    Life.arrays_seen.clear()
    register_backend(LifeBackend())
    register_module_loader(NAME, f"{__name__}:Life")
    forget(NAME)
    yield Life

    GLOBAL_FUNCTIONS.unregister(f"relay.ext.{NAME}.optimize")


def model(rows=3):
    x = relay.var("x", TensorType((rows, 4), "float32"))
    e = relay.exp(relay.abs(x))
    both = relay.add(e, relay.const(W[0]))
    return byoc.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.tanh(both), relay.sqrt(e)])))


def right(got, x):
    e = np.exp(np.abs(x))
    np.testing.assert_allclose(got[0], np.tanh(e + W[0]), rtol=1e-5)
    np.testing.assert_allclose(got[1], np.sqrt(e), rtol=1e-5)


def steps(life):
    return [entry[0] for entry in life.log]


def test_the_steps_come_in_this_order_on_the_callers_thread(life, tmp_path):
    library = byoc.compile(model(), [NAME, "c"])
    assert steps(life)[-1] == "compile" and set(steps(life)) == {"optimize", "compile"}
    assert steps(life).count("compile") == 1
    path = library.save(tmp_path / "m.byoc")
    life.log.clear()
    loaded = load(path)
    assert steps(life)[0] == "load" and "initialize" not in steps(life)
    life.log.clear()
    for k in range(3):
        right(loaded.run({"x": W[:3] + k}), W[:3] + k)
    assert [s for s in steps(life) if s != "unavailable"] == ["initialize", "get_function", "run", "run", "run"]
    here = threading.current_thread().name
    assert {entry[-1] for entry in life.log if entry[0] in ("initialize", "run")} == {here}


def test_a_region_is_initialised_once_whatever_number_of_threads_begins(life):
    library = byoc.compile(model(), [NAME, "c"])
    barrier = threading.Barrier(8)

    def work():
        barrier.wait(30)
        right(library.run({"x": W[:3]}), W[:3])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert steps(life).count("initialize") == 1 and steps(life).count("run") == 8


LAYOUTS = {
    "plain": lambda x: x.copy(),
    "transposed": lambda x: x.T.copy().T,
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "shifted by a byte": lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view("float32").reshape(x.shape),
    "read-only": lambda x: np.broadcast_to(x, x.shape),
}


def executor(way, mod):
    if way == "vm":
        passes = relay.transform
        mod = passes.InferType()(mod)
        for step in (passes.AnnotateTarget(NAME), passes.MergeCompilerRegions(), passes.PartitionGraph()):
            mod = step(mod)
        machine = VirtualMachine(compile_module(mod), cpu())
        return lambda x: [np.asarray(value) for value in machine.run(x)]
    library = byoc.compile(mod, [NAME, "c"])
    run = library.graph_executor() if way == "graph" else library.executor()
    return lambda x: run({"x": x})


def bare():
    """The model of a region alone: its inputs are the caller's."""
    x = relay.var("x", shape=(3, 4))
    e = relay.exp(x)
    return byoc.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.add(e, relay.const(W[0])), e])))


@pytest.mark.parametrize("way", ["aot", "graph", "vm"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_are_contiguous_and_aligned_inputs_read_only_and_outputs_apart(life, way, layout):
    run, x = executor(way, bare()), LAYOUTS[layout](W[:3])
    both, alone = run(x)
    np.testing.assert_allclose(both, np.exp(x) + W[0], rtol=1e-6)
    np.testing.assert_allclose(alone, np.exp(x), rtol=1e-6)
    for arrays in life.arrays_seen:
        assert all(a.flags.c_contiguous and a.flags.aligned and type(a) is np.ndarray for a in arrays)
        assert [a.flags.writeable for a in arrays] == [False, True, True]
        pairs = [(a, b) for k, a in enumerate(arrays) for b in arrays[k + 1 :]]
        assert not any(np.may_share_memory(a, b) for a, b in pairs)


@pytest.mark.parametrize("way", ["aot", "graph"])
def test_free_sizes_are_numbers_when_the_function_is_called(life, way):
    run = executor(way, model(Any("n")))
    for rows in (3, 8, 1):
        right(run(W[:rows]), W[:rows])
    assert [[a.shape for a in arrays] for arrays in life.arrays_seen] == [[(n, 4)] * 3 for n in (3, 8, 1)]


def test_help_says_it(capsys):
    for subject, words in (
        (Backend, ("contract.md", "compile(self", "on the caller's thread", "thread_safe")),
        (Module, ("contract.md", "initialize(self", "thread_safe", "must not keep", "fills")),
    ):
        help(subject)
        shown = " ".join(capsys.readouterr().out.replace("|", " ").split())
        for word in words:
            assert word in shown, word
