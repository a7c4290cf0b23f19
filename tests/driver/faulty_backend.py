"""A backend for tests whose modules fail where a test wants it, and count what is asked of them.

It takes the elementwise operators of ``TAKEN`` and computes them by the JSON engine. Its modules work behind the
executor's back where ``Faults.asynchronous`` says so: a start only writes down what is to be done.
"""

import json
import threading
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from byoc.contract import BACKENDS, Backend, accept, callee_name, get_backend, refuse, register_backend
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay.expr import Call
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.relay.traverse import post_order
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.json.module import JsonModule
from byoc.runtime.modules.module import LOADERS, Module, register_module_loader

NAME = "test_faulty"
TAKEN = ("exp", "tanh", "split", "nn.dense")


@dataclass
class Faults:
    """What goes wrong: an error by stage; ``bad_shapes`` are those for which the launch fails (None: all).

    ``optimize`` and ``compile`` fail for regions with an operator in ``bad_operators`` (None: for all); ``hang`` is set
    when what hangs, at the stages in ``hanging``, may end.
    """

    errors: dict = field(default_factory=dict)
    missing: str | None = None
    bad_shapes: tuple | None = None
    bad_operators: tuple | None = None
    hanging: tuple = ()
    hang: threading.Event = field(default_factory=threading.Event)
    is_asynchronous: bool = False
    counts: Counter = field(default_factory=Counter)
    seen: list = field(default_factory=list)  # the arrays of each launch
    log: list = field(default_factory=list)


FAULTS = Faults()


def hang(stage):
    if stage in FAULTS.hanging:
        assert FAULTS.hang.wait(60), "nobody ended the hang"


def fail(stage, function):
    """What ``optimize`` and ``compile`` do about their region."""
    names = {callee_name(n) for n in post_order(function.body) if isinstance(n, Call)}
    if FAULTS.bad_operators is not None and names.isdisjoint(FAULTS.bad_operators):
        return
    FAULTS.counts[stage] += 1
    hang(stage)
    if stage in FAULTS.errors:
        raise FAULTS.errors[stage]


class FaultyModule(Module):
    """A JSON module behind a door that may be shut."""

    type_key = NAME

    def __init__(self, inner, can_start=False):
        super().__init__()
        self.inner, self.can_start = inner, can_start
        self.constant_arrays = inner.constant_arrays

    @property
    def symbols(self):
        return self.inner.symbols

    def constants(self):
        return self.inner.constants()

    def unavailable(self):
        FAULTS.counts["device"] += 1
        return FAULTS.missing

    def initialize(self, symbol, constants):
        FAULTS.counts["initialize"] += 1
        hang("initialize")
        if "initialize" in FAULTS.errors:
            raise FAULTS.errors["initialize"]
        self.inner.initialize(symbol, constants)

    def get_function(self, name, query_imports=False):
        FAULTS.counts["load"] += 1
        hang("load")
        if "load" in FAULTS.errors:
            raise FAULTS.errors["load"]
        function = self.inner.get_function(name)
        if function is None:
            return None
        kind = StartedFunction if FAULTS.is_asynchronous else FaultyFunction
        return kind(name, function, len(self.inner.signatures[name].inputs))

    def save(self):
        return {"inner.json": json.dumps({k: v.decode() for k, v in self.inner.save().items()}).encode()}

    @classmethod
    def load(cls, members):
        if "read" in FAULTS.errors:
            raise FAULTS.errors["read"]
        return cls(JsonModule.load({k: v.encode() for k, v in json.loads(bytes(members["inner.json"])).items()}))


class FaultyFunction:
    """A function that may fail behind its first output, which it has filled with something else by then."""

    def __init__(self, name, function, inputs):
        self.name, self._function, self._inputs = name, function, inputs

    def __call__(self, *arrays):
        values = [a.numpy() for a in arrays]
        FAULTS.counts["launch"] += 1
        FAULTS.seen.append(values)
        hang("launch")
        shape = values[0].shape
        if "launch" in FAULTS.errors and (FAULTS.bad_shapes is None or shape in FAULTS.bad_shapes):
            values[self._inputs][...] = 777
            raise FAULTS.errors["launch"]
        self._function(*arrays)


class StartedFunction(FaultyFunction):
    """A function that does what it was started for when it is waited for, and not a moment before."""

    def start(self, arrays, after):
        FAULTS.log.append(("start", self.name))
        return LateCall(self, arrays)


class LateCall:
    def __init__(self, function, arrays):
        self.function, self.arrays = function, arrays

    def wait(self):
        self.function(*map(NDArray, self.arrays))
        FAULTS.log.append(("end", self.function.name))


class FaultyBackend(Backend):
    name = NAME

    def supports(self, call):
        name = callee_name(call)
        return accept(call) if name in TAKEN else refuse(call, "operator", f"only {TAKEN}", name)

    def optimize(self, region):
        fail("optimize", region)
        return region

    def compile(self, function, options):
        fail("compile", function)
        if "module" in FAULTS.errors:
            return FAULTS.errors["module"]
        return FaultyModule(get_backend("json").compile(function, options), FAULTS.is_asynchronous)


def registered():
    """Register the backend with fresh faults, which are given; forget it when the generator is closed."""
    FAULTS.__init__()
    register_backend(FaultyBackend())
    register_module_loader(NAME, f"{__name__}:FaultyModule")
    yield FAULTS
    FAULTS.hang.set()
    LOADERS.pop(NAME, None)
    for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
        registry.unregister(NAME)
    GLOBAL_FUNCTIONS.unregister(f"relay.ext.{NAME}")
    GLOBAL_FUNCTIONS.unregister(f"relay.ext.{NAME}.optimize")


def same(got, want):
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-6, atol=1e-6)
