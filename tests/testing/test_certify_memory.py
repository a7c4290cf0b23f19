"""Certification finds backends whose memory is another's: worked on in place, shared by regions; and files that another
process loads, which a command was given."""

import re

import pytest

from byoc.cli.main import main
from byoc.contract.importing import import_backend
from byoc.testing import certify

VENDOR = """
import json
import numpy as np
from byoc.contract import Backend, constraints as C, steps_of
from byoc.runtime import Module

OPS = {"tanh": np.tanh, "add": np.add, "nn.relu": lambda x: np.maximum(x, np.float32(0))}

class NAMEModule(Module):
    type_key = "NAME"
    def __init__(self, symbol, graph):
        super().__init__()
        self.symbols, self.graph, self.weights = (symbol,), graph, []
    def constants(self):
        return {self.symbols[0]: self.graph["constants"]}
    def initialize(self, symbol, constants):
        INITIALIZE
    def get_function(self, name, query_imports=False):
        return self.run if name in self.symbols else None
    def save(self):
        return {"graph": json.dumps([*self.symbols, self.graph]).encode()}
    @classmethod
    def load(cls, members):
        return cls(*json.loads(bytes(members["graph"])))
    def op(self, name, args):
        OP
        return OPS[name](*args)
    def run(self, *arrays):
        count = self.graph["inputs"]
        values = [a.numpy() for a in arrays[:count]] + self.weights
        for name, places in self.graph["steps"]:
            values.append(self.op(name, [values[k] for k in places]))
        for out, k in zip(arrays[count:], self.graph["outputs"]):
            np.copyto(out.numpy(), values[k])

class NAME(Backend):
    "a vendor's"
    name = "NAME"
    constraints = (C.operators(*OPS), C.dtypes("float32"), C.static_sizes())
    def compile(self, function, options):
        region = steps_of(function)
        steps = [[s.call.op.name, list(s.inputs)] for s in region.steps]
        graph = dict(inputs=region.inputs, steps=steps, outputs=list(region.outputs), constants=list(region.constants))
        module = NAMEModule(region.symbol, graph)
        module.constant_arrays = region.constants
        return module
"""
OWN = "self.weights = [c.numpy() for c in constants]"
SHARED = "NAMEModule.weights = [c.numpy() for c in constants]; del self.weights"
IN_PLACE = 'if name == "nn.relu" and args[0].flags.writeable: return np.maximum(args[0], np.float32(0), out=args[0])'


@pytest.fixture
def vendor(of_this_test, tmp_path):
    def written(name, initialize=OWN, op="pass"):
        text = VENDOR.replace("INITIALIZE", initialize).replace("        OP\n", f"        {op}\n")
        path = tmp_path / f"{name}.py"
        path.write_text(text.replace("NAME", name))
        return str(path)

    return written


def test_constants_that_all_regions_share_are_found(vendor):
    import_backend(vendor("shares_weights", SHARED))
    found = certify("shares_weights", only=["add"], saved=False)
    texts = [f.text for c in found.failures for f in c.findings]
    assert any("behind a run of another region, with other constants, it gives other numbers" in t for t in texts), (
        found
    )


def test_an_operator_that_works_in_place_on_what_is_read_again_is_found(vendor):
    import_backend(vendor("works_in_place", op=IN_PLACE))
    found = certify("works_in_place", only=["nn.relu", "add", "tanh"], saved=False)
    assert any(re.search(r"read by nn.relu too", c.name) for c in found.failures), str(found)


def test_a_file_that_registers_nothing_itself_is_certified_saved(vendor, capsys):
    path = vendor("says_nothing")
    assert main(["certify", "says_nothing", "--import", path, "--only", "add"]) == 0
    out = capsys.readouterr().out
    assert "says_nothing: certified" in out and "wrong: none" in out
