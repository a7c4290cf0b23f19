"""What each vendor's file of the tests begins with, and a model that is compiled for it."""

import byoc
from byoc import relay

HEAD = """
import numpy as np
from byoc import relay
from byoc.contract import Backend, Quantized, constraints as C, register_backend
from byoc.kernels import KernelBackend, kernel
from byoc.relay.dataflow_pattern import is_op, wildcard
from byoc.runtime import Module

class M(Module):
    type_key = "NAME_base"
    def __init__(self, symbol):
        super().__init__()
        self.symbols = (symbol,)
    def get_function(self, name, query_imports=False):
        return self.run if name in self.symbols else None
    def run(self, x, y):
        np.copyto(y.numpy(), np.maximum(x.numpy(), 0))
    def save(self):
        return {"symbol": self.symbols[0].encode()}
    @classmethod
    def load(cls, members):
        return cls(bytes(members["symbol"]).decode())

class Base(Backend):
    "mistaken"
    constraints = (C.operators("nn.relu"),)
    module = M
    def compile(self, function, options):
        return self.module(function.attrs["global_symbol"])
"""
MODULE = """
class N(M):
    type_key = "NAME"
    {}
class B(Base):
    name = "NAME"
    module = N
"""
BACKEND = """
class B(Base):
    name = "NAME"
    {}
"""
COMPILE = r"backend 'NAME' failed on tvmgen_default_NAME_main_0 \(operators [a-z._, ]+\): "


def compiled(name, **options):
    x = relay.var("x", shape=(2, 3))
    mod = byoc.IRModule.from_expr(relay.Function([x], relay.exp(relay.nn.relu(x))))
    return byoc.compile(mod, targets=[name, "c"], **options)


def shown(raised, words, name):
    """The error is one line that has these *words*, in which NAME stands for the backend's."""
    assert "\n" not in str(raised.value)
    raised.match(words.replace("NAME", name))
