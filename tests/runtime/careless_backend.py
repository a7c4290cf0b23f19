"""A vendor's backend whose function does what a test says: it may return its results, forget them, write anywhere."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from byoc.contract import BACKENDS, Backend, accept, callee_name, refuse, register_backend
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.runtime import Module
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.modules.module import LOADERS, register_module_loader

NAME = "test_careless"


@dataclass
class Does:
    """What the function does with its inputs and outputs, and how it is called."""

    run: Callable[..., object] | None = None
    starts: bool = False
    returns: bool = False
    seen: int = 0


DOES = Does()


class Function:
    def __call__(self, *arrays):
        DOES.seen += 1
        return DOES.run(*(a.numpy() for a in arrays))


class Started(Function):
    def start(self, arrays, after):
        for pending in after:
            pending.wait()
        return Late(self, arrays)


class Late:
    def __init__(self, function, arrays):
        self.function, self.arrays = function, arrays

    def wait(self):
        return self.function(*map(NDArray, self.arrays))


class Returning:
    def call_returning(self, inputs):
        DOES.seen += 1
        return DOES.run(*inputs)

    def __call__(self, *arrays):
        raise AssertionError("it returns its outputs")


class CarelessModule(Module):
    type_key = NAME

    def __init__(self, symbol):
        super().__init__()
        self.symbols, self.can_start = (symbol,), DOES.starts

    def get_function(self, name, query_imports=False):
        if name not in self.symbols:
            return None
        return Returning() if DOES.returns else Started() if DOES.starts else Function()

    def save(self):
        return {"symbol": self.symbols[0].encode()}

    @classmethod
    def load(cls, members):
        return cls(bytes(members["symbol"]).decode())


class Careless(Backend):
    """It says that it takes exp and tanh."""

    name = NAME

    def supports(self, call):
        name = callee_name(call)
        return accept(call) if name in ("exp", "tanh") else refuse(call, "operator", "exp and tanh", name)

    def compile(self, function, options):
        return CarelessModule(str(function.attrs["global_symbol"]))


def registered():
    """Register the backend for as long as the generator is open."""
    DOES.__init__()
    register_backend(Careless())
    register_module_loader(NAME, f"{__name__}:CarelessModule")
    yield DOES
    LOADERS.pop(NAME, None)
    for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
        registry.unregister(NAME)
    GLOBAL_FUNCTIONS.unregister(f"relay.ext.{NAME}")


def exp(x, out):
    np.copyto(out, np.exp(x))
