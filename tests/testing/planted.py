"""Backends for tests, each with one planted mistake; all but for it are right.

They compute by the JSON engine. A module keeps its mistake in what it saves, and reads it back.
"""

import ctypes
import itertools
import json
import os
import time

import numpy as np

from byoc.contract import BACKENDS, NAN_LOST, Backend, callee_name, constraint, get_backend, register_backend
from byoc.errors import UserError
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay.expr import Call
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.relay.traverse import post_order
from byoc.runtime.json.module import JsonModule
from byoc.runtime.modules.module import LOADERS, Module, register_module_loader
from byoc.testing.core.worker_pool import WorkerPool

KEY = "planted"
TAKEN = (
    "nn.conv2d",
    "nn.relu",
    "nn.dense",
    "nn.bias_add",
    "nn.softmax",
    "nn.max_pool2d",
    "sum",
    "add",
    "split",
    "tanh",
)
FAULTS = {
    "none": "nothing",
    "stride": "a convolution with stride 2 is off by a half",
    "second": "the second output of a region is off by one",
    "saved": "numbers are off by one after loading",
    "random": "each compilation gives other bytes",
    "writes": "a relu writes into its input",
    "late": "a softmax over another axis than the last is taken, and then refused",
    "empty": "a sum over nothing is one",
    "race": "threads share one buffer",
    "outside": "an addition writes one element behind its output",
    "unfilled": "the last element of a tanh is left as it was",
    "quantized": "integers of a quantized convolution are off by a quarter of the largest",
    "pair": "a sum is off by one where a relu follows it in the region",
    "verdict": "the verdict of a split raises",
    "positive": "a relu of positive numbers is off by one",
    "crash": "a softmax reads at address 0, a relu ends the process, a tanh has no end, the verdict of a split crashes",
    "float": "integers are computed in float32",
    "deep": "a product over more than 200 elements is off by one",
    "lower": "an addition whose first operand has fewer axes is off by one",
    "itself": "an addition of a value and itself is off by one",
    "constants": "two additions of constants of one shape are off by one",
    "process": "a relu has numpy raise errors, a tanh changes the folder, a sum seeds numpy's random numbers",
    "shared": "a region is off by one where another was initialised after it",
    "raises": "a tanh raises an error",
    "axis": "a softmax over the first of several axes is off by one",
    "bias": "a bias along the third of four axes is off by one",
    "denormal": "a tanh of a denormal number is NaN",
    "nan": "a relu makes 0 of a NaN, which it declares",
}
COUNT = itertools.count()


class PlantedModule(Module):
    """A JSON module with a mistake of this name in it."""

    type_key = KEY
    thread_safe = True  # it says so
    newest = None  # of all, the one that was initialised last

    def __init__(self, inner, fault, operators, mark=""):
        super().__init__()
        self.inner, self.fault, self.operators, self.mark = inner, fault, operators, mark
        self.constant_arrays = inner.constant_arrays
        self.was_loaded = False
        self.scratch = {}

    @property
    def symbols(self):
        return self.inner.symbols

    def constants(self):
        return self.inner.constants()

    def initialize(self, symbol, constants):
        PlantedModule.newest = self
        self.inner.initialize(symbol, constants)

    def get_function(self, name, query_imports=False):
        function = self.inner.get_function(name)
        if function is None:
            return None
        count = len(self.inner.signatures[name].inputs)

        def call(*arrays):
            values = [a.numpy() for a in arrays]
            if self.fault == "crash":
                self.crash()
            if self.fault == "raises" and "tanh" in self.operators:
                raise RuntimeError("the queue is full")
            last = [v.reshape(-1)[-1:].copy() for v in values[count:]]
            if self.fault == "race":
                self.race(function, arrays, values, count)
            else:
                function(*arrays)
            self.plant(values[:count], values[count:])
            self.disturb()
            if self.fault == "unfilled" and "tanh" in self.operators:
                values[count].reshape(-1)[-1:] = last[0]

        return call

    def disturb(self):
        if self.fault == "process" and "nn.relu" in self.operators:
            np.seterr(all="raise")
        if self.fault == "process" and "tanh" in self.operators:
            os.chdir("/")
        if self.fault == "process" and "sum" in self.operators:
            np.random.seed(0)

    def crash(self):
        if "nn.softmax" in self.operators:
            ctypes.string_at(0)
        if "nn.relu" in self.operators:
            os._exit(3)
        while "tanh" in self.operators:
            pass

    def race(self, function, arrays, values, count):
        buffer = self.scratch.setdefault((values[0].shape, values[0].dtype), values[0].copy())
        np.copyto(buffer, values[0])
        time.sleep(0.001)
        function(type(arrays[0])(buffer), *arrays[1:])

    def plant(self, inputs, outputs):
        fault, output = self.fault, outputs[0]
        if self.is_off_by_one(inputs):
            output += 1
        elif fault == "stride" and "stride 2" in self.operators:
            output += output.dtype.type(0.5)
        elif fault == "positive" and "nn.relu" in self.operators and inputs[0].max(initial=0) > 0:
            output += 1
        elif fault == "second" and len(outputs) > 1 and outputs[1].dtype.kind == "f":
            outputs[1][...] += 1
        elif fault == "saved" and self.was_loaded and output.dtype.kind == "f":
            output += 1
        elif fault == "writes" and "nn.relu" in self.operators and inputs[0].nbytes:
            ctypes.memset(inputs[0].ctypes.data, 0, inputs[0].nbytes)  # as native code does, which no flag holds back
        elif fault == "empty" and self.operators == ["sum"] and inputs[0].size == 0:
            output[...] = 1
        elif fault == "quantized" and output.dtype.kind in "iu" and any("conv2d" in o for o in self.operators):
            output += output.dtype.type(np.abs(output).max() // 4 + 1)
        elif fault == "pair" and "add, nn.relu" in ", ".join(self.operators):
            output += 1
        elif fault == "denormal" and "tanh" in self.operators:
            small = (inputs[0] != 0) & (abs(inputs[0]) < np.finfo("float32").tiny)
            output[small] = np.nan
        elif fault == "nan" and "nn.relu" in self.operators:
            output[np.isnan(output)] = 0
        elif fault == "float" and output.dtype.kind == "i":
            output[...] = output.astype("float32").astype(output.dtype)
        elif fault == "outside" and "add" in self.operators and output.size:
            behind = np.lib.stride_tricks.as_strided(output.reshape(-1), (output.size + 1,), (output.itemsize,))
            behind[-1] = 0

    def is_off_by_one(self, inputs):
        shapes, many = [a.shape for a in inputs], len(self.constant_arrays)
        when = {
            "deep": "nn.dense" in self.operators and shapes[0][-1] > 200,
            "lower": "add" in self.operators and len(shapes) == 2 and len(shapes[0]) < len(shapes[1]),
            "itself": self.operators == ["add"] and len(shapes) == 1 and many == 0,
            "constants": self.operators == ["add", "add"] and many == 2,
            "axis": "first axis" in self.operators,
            "bias": "third axis" in self.operators,
            "shared": self is not PlantedModule.newest,
        }
        return when.get(self.fault, False)

    def save(self):
        inner = {k: v.decode() for k, v in self.inner.save().items()}
        return {"all.json": json.dumps([inner, self.fault, self.operators, self.mark]).encode()}

    @classmethod
    def load(cls, members):
        inner, fault, operators, mark = json.loads(bytes(members["all.json"]))
        made = cls(JsonModule.load({k: v.encode() for k, v in inner.items()}), fault, operators, mark)
        made.was_loaded = True
        return made


@constraint("operator")
def few_operators(call):
    """a few operators"""
    return None if callee_name(call) in TAKEN else callee_name(call)


@constraint("operator")
def quantized_operators(call):
    """operators of quantized models"""
    return None if callee_name(call) in (*TAKEN, "qnn.conv2d", "qnn.requantize") else callee_name(call)


@constraint("float", of="*")
def floats(call):
    """float32 only"""
    return None if call.args and str(getattr(call.args[0].checked_type, "dtype", "")) == "float32" else "another type"


def backend_of(fault):
    class Planted(Backend):
        name = f"planted_{fault}"
        constraints = (quantized_operators,) if fault == "quantized" else (few_operators, floats)
        constraints = (few_operators,) if fault == "float" else constraints
        deviations = (NAN_LOST,) if fault == "nan" else ()

        def supports(self, call):
            if fault == "crash" and callee_name(call) == "split":
                ctypes.string_at(0)
            if fault == "verdict" and callee_name(call) == "split":
                raise RuntimeError("a planted error")
            return super().supports(call)

        def compile(self, function, options):
            calls = [n for n in post_order(function.body) if isinstance(n, Call)]
            operators = [callee_name(n) for n in calls]
            if any(callee_name(n) == "nn.conv2d" and 2 in n.attrs.strides for n in calls):
                operators.append("stride 2")
            if any(callee_name(n) == "nn.softmax" and n.attrs.axis in (0, -n.checked_type.ndim) for n in calls):
                operators.append("first axis")
            if any(callee_name(n) == "nn.bias_add" and n.attrs.axis == 2 and n.checked_type.ndim == 4 for n in calls):
                operators.append("third axis")
            if fault == "late" and any(
                callee_name(n) == "nn.softmax" and n.attrs.axis % n.checked_type.ndim != n.checked_type.ndim - 1
                for n in calls
            ):
                raise UserError("a softmax over the last axis alone")
            mark = f"{os.getpid()} {next(COUNT)}" if fault == "random" else ""
            return PlantedModule(get_backend("json").compile(function, options), fault, operators, mark)

    Planted.__doc__ = f"A backend for tests: {FAULTS[fault]}."
    return Planted


def fork_workers(monkeypatch):
    """Let pools of workers fork this process instead of starting new ones, which import all of byoc each."""
    start = WorkerPool.__init__

    def forking(pool, opening, count, limit, forked=""):
        start(pool, opening, count, limit, forked or "a copy is there at once")

    monkeypatch.setattr(WorkerPool, "__init__", forking)


def register(fault):
    """Register the backend with this mistake; :func:`forget` takes it away."""
    LOADERS.pop(KEY, None)
    register_module_loader(KEY, f"{__name__}:PlantedModule")
    register_backend(backend_of(fault))
    return f"planted_{fault}"


def forget(name):
    LOADERS.pop(KEY, None)
    for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
        registry.unregister(name)
    GLOBAL_FUNCTIONS.unregister(f"relay.ext.{name}")


LOADERS.setdefault(KEY, f"{__name__}:PlantedModule")  # another process imports this file to load what was saved
