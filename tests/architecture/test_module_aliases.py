"""Names that modules had before they moved still import them, each module loaded once."""

import importlib
import subprocess
import sys

import pytest

from byoc.base.module_aliases import MOVED, home_of
from tools.health.sources import modules


@pytest.mark.parametrize("known", sorted(MOVED))
def test_a_name_of_before_gives_the_module_itself(known):
    assert MOVED[known] in modules() and known not in modules()
    assert importlib.import_module(known) is importlib.import_module(MOVED[known])


def test_a_function_of_a_package_stays_where_a_module_of_its_name_moved():
    code = "import byoc.relay.transform.recast; from byoc.relay.transform import recast; assert callable(recast)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_is_below_a_package_that_moved_follows_it():
    assert home_of("byoc.relay.testing.resnet") == "byoc.annex.testing.resnet"
    assert home_of("byoc.relay.testing_elsewhere") == "byoc.relay.testing_elsewhere"


@pytest.mark.parametrize(
    "fact",
    [
        "byoc.runtime.device('cpu').kind == 'cpu'",
        "byoc.runtime.ndarray.NDArray is byoc.runtime.NDArray",
        "byoc.runtime.module.Module is byoc.runtime.Module",
        "byoc.runtime.metadata.MetadataModule is byoc.runtime.MetadataModule",
        "byoc.runtime.errors.InputError is byoc.runtime.InputError",
        "repr(byoc.runtime.InputError) == \"<class 'byoc.runtime.errors.InputError'>\"",
    ],
)
def test_the_runtime_alone_has_what_users_know_it_by(fact):
    code = f"import byoc.runtime; assert {fact}; import byoc.runtime.device, byoc.runtime.errors; assert {fact}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
