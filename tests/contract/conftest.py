"""What tests of backends share: registries as they were before."""

import pathlib
import sys
import textwrap

import pytest

from byoc.contract import BACKENDS
from byoc.contract.importing import import_backend
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.runtime.modules.module import LOADERS

sys.path.append(str(pathlib.Path(__file__).parent))

from vendor_files import HEAD


@pytest.fixture
def forget():
    """A function that gets the names of backends which are forgotten when the test ends."""
    names = []
    yield names.append
    for name in names:
        LOADERS.pop(name, None)
        for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
            registry.unregister(name)
        GLOBAL_FUNCTIONS.unregister(f"relay.ext.{name}")


@pytest.fixture
def vendor(tmp_path, of_this_test):
    """Imports a vendor's file of that name and text, behind what each of them has."""

    def write(name, text):
        path = tmp_path / f"{name}.py"
        path.write_text((HEAD + textwrap.dedent(text)).replace("NAME", name))
        import_backend(str(path))

    return write
