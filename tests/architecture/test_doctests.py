"""Every example in a docstring gives what it says."""

import doctest
import importlib
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = {"byoc": "byoc", "byoc.codegen": "codegen", "byoc.runtime": "runtime", "byoc.contrib": "contrib"}


def module_names():
    """The modules with an example: looking for the docstrings of all takes a minute."""
    for package, folder in FOLDERS.items():
        for file in sorted((ROOT / folder).rglob("*.py")):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            if parts[-1] != "__main__" and ">>>" in file.read_text():
                yield ".".join([package, *(part for part in parts if part != "__init__")])


def test_every_example_in_a_docstring_gives_what_it_says():
    results = {name: doctest.testmod(importlib.import_module(name)) for name in module_names()}
    assert [name for name, result in results.items() if result.failed] == []
    assert sum(result.attempted for result in results.values()) > 10
