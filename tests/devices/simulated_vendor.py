"""A vendor whose compiler is here and whose device is not, unless ``Negation.there`` says so."""

import numpy as np

from byoc.contract import Backend, RegionGenerator, constraints, makes, register_backend
from byoc.runtime import HardwareLevel, Module, fill_outputs, register_module_loader

NAME = "negating_chip"


class Negation(Module):
    """Negates its input."""

    type_key = NAME
    there = HardwareLevel.COMPILE_ONLY

    def __init__(self, symbol):
        super().__init__()
        self.symbols = (symbol,)

    def level(self):
        return self.there

    def get_function(self, name, query_imports=False):
        return self.run if name in self.symbols else None

    def run(self, source, target):
        fill_outputs([target], [np.negative(source.numpy())])

    def save(self):
        return {"symbol": self.symbols[0].encode()}

    @classmethod
    def load(cls, members):
        return cls(bytes(members["symbol"]).decode())


class Generator(RegionGenerator[int]):
    """Regions of one negation."""

    def input(self, spec):
        return 0

    @makes("negative")
    def negative(self, node, source):
        return source

    def compile(self, results):
        return Negation(self.symbol)


class NegatingChip(Backend):
    """Negates."""

    name = NAME
    constraints = (constraints.operators(*Generator.operators()), constraints.dtypes("float32"))

    def level(self):
        return Negation.there

    def compile(self, function, options):
        return Generator(function, options).generate()


def register():
    """Make it known in this process."""
    register_backend(NegatingChip)
    register_module_loader(NAME, Negation)
