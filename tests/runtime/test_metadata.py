"""The metadata module: each constant once, each symbol initialised once, from any number of threads."""

import threading
import time

import numpy as np
import pytest

from byoc.runtime import MetadataModule, Module, NDArray
from byoc.runtime.core.errors import ArtifactError, UserError


class Counting(Module):
    type_key = "counting"

    def __init__(self, *symbols):
        super().__init__()
        self._symbols = symbols
        self.initialised = []

    @property
    def symbols(self):
        return self._symbols

    def get_function(self, name, query_imports=False):
        return (lambda: name) if name in self._symbols else None

    def initialize(self, symbol, constants):
        time.sleep(0.01)
        self.initialised.append((symbol, [c.numpy().tolist() for c in constants]))


def tree():
    root = MetadataModule(
        {"a": NDArray(np.array([1])), "b": NDArray(np.array([2]))}, {"f": ["a", "b"], "g": ["b"], "h": []}
    )
    first, second = Counting("f", "g"), Counting("h")
    root.import_module(first)
    root.import_module(second)
    return root, first, second


def test_a_symbol_gets_its_own_constants_on_first_use_and_never_again():
    root, first, second = tree()
    assert first.initialised == []
    assert root["g"]() == root["g"]() == "g"
    assert first.initialised == [("g", [[2]])]
    assert root["h"]() == "h"
    assert second.initialised == []


def test_eight_threads_that_race_initialise_once():
    root, first, _ = tree()
    barrier = threading.Barrier(8)

    def use():
        barrier.wait()
        root["f"]()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert first.initialised == [("f", [[1], [2]])]


def test_a_missing_constant_is_refused_when_the_tree_is_made():
    with pytest.raises(ArtifactError, match="symbol 'f' needs the constant 'a'"):
        MetadataModule({}, {"f": ["a"]})


def test_two_modules_with_one_symbol_are_refused():
    root, _, _ = tree()
    with pytest.raises(UserError, match="two modules have a function 'f'"):
        root.import_module(Counting("f"))


def test_the_tree_is_printed_and_an_unknown_function_names_the_known():
    root, _, _ = tree()
    assert root.tree().splitlines() == ["metadata: -", "  counting: f, g", "  counting: h"]
    assert root.constant_bytes == 16
    with pytest.raises(UserError, match="no function 'x'; it has f, g, h"):
        root["x"]
