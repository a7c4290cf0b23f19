"""What a vendor's backend answers when it is asked, in another form than the contract's: reported where it is asked.

Also which module class has a type, constraints in the forms in which they are written, and a generator's hooks.
"""

import json
import re
import textwrap

import numpy as np
import pytest
from vendor_files import BACKEND, COMPILE, MODULE, compiled, shown

from byoc.cli.exit_codes import EXIT_USER
from byoc.cli.main import diagnose, main
from byoc.cli.targets_command import describe
from byoc.errors import ByocError, UserError
from byoc.runtime.modules.module import module_class
from byoc.testing import certify

pytestmark = pytest.mark.needs_cc
EXPECTED = "one sentence that says what is missing on this machine, or None where it can work"
UNAVAILABLE = {
    "true": ("def unavailable(self): return True", rf"its unavailable\(\) gave True, expected {EXPECTED}"),
    "number": ("def unavailable(self): return 0", rf"its unavailable\(\) gave 0, expected {EXPECTED}"),
    "empty": ("def unavailable(self): return ''", rf"its unavailable\(\) gave '', expected {EXPECTED}"),
    "raises": (
        "def unavailable(self): raise OSError('libNAME.so: cannot open')",
        rf"its unavailable\(\) failed: OSError: libNAME.so: cannot open \(NAME.py:\d+\); it must give {EXPECTED}",
    ),
    "exits": (
        "def unavailable(self): raise SystemExit(3)",
        rf"its unavailable\(\) failed: .* asked Python to exit with 3 \(NAME.py:\d+\); it must give {EXPECTED}",
    ),
    "no_method": (
        "unavailable = None",
        rf"its unavailable is None, expected a method unavailable\(self\) that gives {EXPECTED}",
    ),
}


@pytest.mark.parametrize("mistake", UNAVAILABLE)
def test_a_backend_that_does_not_say_whether_it_works_here(vendor, mistake, capsys):
    text, words = UNAVAILABLE[mistake]
    name = f"unavailable_{mistake}"
    vendor(name, BACKEND.format(text))
    words = f"backend '{name}': {words}".replace("NAME", name)
    with pytest.raises(ByocError) as raised:
        certify(name)
    shown(raised, words, name)
    assert main(["targets", "--json"]) == 0
    (row,) = [row for row in json.loads(capsys.readouterr().out)["targets"] if row["name"] == name]
    assert row["state"] == "broken" and re.search(words, row["about"])
    (loss,) = compiled(name, replan=True).report["replanned"]
    assert loss["stage"] == "device" and re.search(words, loss["error"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("return True", rf"gave True, expected {EXPECTED}"),
        ("return {}['k']", rf"failed: KeyError: 'k' \(module_\d.py:\d+\); it must give {EXPECTED}"),
    ],
)
def test_a_module_that_does_not_say_whether_it_works_here(vendor, text, words, request):
    name = f"module_{request.node.callspec.indices['text']}"
    vendor(name, MODULE.format(f"def unavailable(self): {text}"))
    words = rf"unavailable\(\) of the module N {words}"
    (problem,) = compiled(name).problems().values()
    assert re.search(words, problem)
    library = compiled(name, fallback=True)
    library(np.ones((2, 3), "float32"))
    (kept,) = library.fallbacks
    assert kept.stage == "device" and re.search(words, kept.message)


def test_a_level_that_is_none(vendor):
    vendor("level_none", BACKEND.format("def level(self): return 'emulated'"))
    about = describe("level_none")["about"]
    assert "'level_none': its level() gave 'emulated', expected a byoc.runtime.HardwareLevel, as in" in about


def test_a_constraint_that_makes_another_refuses_with_what_to_do(vendor):
    text = "def floats(dtype):\n    'floats'\n    return C.dtypes(dtype if isinstance(dtype, str) else 'float32')\n"
    vendor("makes_one", text + BACKEND.format("constraints = (floats,)"))
    plan = compiled("makes_one").plan
    assert not plan.regions
    assert "the constraint floats (floats) failed when asked: it returned the constraint 'dtype', expected" in str(plan)


@pytest.mark.parametrize(("dtype", "regions"), [("float32", 1), ("float16", 0)])
def test_a_single_constraint_is_the_check_of_a_pattern(vendor, dtype, regions):
    rows = f"return [('NAME.p', is_op('nn.relu')(wildcard()), C.dtypes('{dtype}'))]"
    limits = "constraints = (C.operators('NAME.p'),)"
    vendor(f"single_{dtype}", BACKEND.format(f"{limits}\n    def patterns(self): {rows}"))
    assert len(compiled(f"single_{dtype}").plan.regions) == regions


def test_a_module_class_takes_the_key_of_another_place_when_told_to(vendor):
    vendor("key_first", MODULE.format("pass"))
    there = module_class("key_first")
    again = MODULE.format("pass").replace('type_key = "NAME"', 'type_key = "key_first"')
    with pytest.raises(UserError, match=r"key_second.py: module type 'key_first' is loaded by key_first:N"):
        vendor("key_second", again)
    assert module_class("key_first") is there
    registered = "\nfrom byoc.runtime import register_module_loader\n"
    vendor("key_third", f"{again}{registered}register_module_loader('key_first', N, override=True)")
    assert module_class("key_first").__module__ == "key_third"


def test_a_class_made_of_one_with_its_key_leaves_it_the_key(vendor):
    vendor("key_base", MODULE.format("pass") + "class Fast(N):\n    thread_safe = True")
    assert module_class("key_base").__name__ == "N"


def test_a_hook_that_is_missing_is_the_vendors_to_write(vendor):
    text = """
    from byoc.contract import RegionGenerator
    class Steps(RegionGenerator):
        def input(self, spec): return spec.name
    """
    vendor("no_hook", textwrap.dedent(text) + BACKEND.format("def compile(self, f, o): return Steps(f, o).generate()"))
    with pytest.raises(ByocError) as raised:
        compiled("no_hook")
    words = r"nn.relu was accepted, and Steps has no hook for it: write one with @makes\('nn.relu'\), or have a constr"
    shown(raised, COMPILE + words, "no_hook")
    assert diagnose(raised.value) == (EXIT_USER, str(raised.value))
