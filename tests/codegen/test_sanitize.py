"""``BYOC_SANITIZE``: what it refuses, and that what it is for is found: an overrun in an arena, a race of a team."""

import subprocess
import sys

import pytest
from sanitized import environment, run_under

import byoc
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.sanitizers import VARIABLE, requested, sanitizer_flags
from byoc.errors import ArtifactError, UnavailableError, UserError
from byoc.runtime.dso.module import DsoModule
from byoc.runtime.dso.whole_program import contract_of, contract_text

pytestmark = pytest.mark.needs_cc
# an operator that reads an element behind its input, or stores one behind its output, beside neighbours in one arena
BROKEN = """
import sys
import numpy as np
import byoc
from byoc import relay, te
from byoc.ir.op import OpPattern, register_op
from byoc.relay.expr import Call, Function, var
from byoc.ir.op import OPS
from byoc.codegen.kernel.simplify import Simplifier

where, how = sys.argv[1:]
def behind(attrs, inputs, out_type):
    (x,) = inputs
    return [te.compute(x.shape, lambda i: x[i + {offset}], "behind")]

op = register_op("test_sanitize.behind", inputs=["x"], rel=lambda types, attrs: types[0], doc="-", compute=behind)
x = var("x", shape=(64,))
y = relay.exp(x)
body = relay.multiply(Call(op, [y]), y)
library = byoc.compile(relay.IRModule.from_expr(Function([x], body)), ["c"] if where == "host" else ["c", "c"])
feeds = dict(x=np.zeros(64, "float32"))
print("compiled", flush=True)
library.graph_executor()(feeds) if how == "nodes" else library.run(feeds)
print("ran", flush=True)
"""
RACING = """
import re
import sys
import numpy as np
import byoc
from byoc.codegen.c.toolchain.compiler import CCompiler, TranslationUnit
from byoc import relay
from byoc.relay.expr import Function, const, var

if sys.argv[1] == "racing":
    build = CCompiler.build_units
    def without_barriers(self, units, flags=()):
        drop = lambda text: re.sub(r"(?m)^ +(if \\()?team_wait\\(team\\).*$", "", text)
        return build(self, [TranslationUnit(drop(u.source), u.flags) for u in units], flags)
    CCompiler.build_units = without_barriers
x, w = var("x", shape=(64, 256)), const(np.ones((256, 256), "float32"))
body = relay.nn.dense(relay.nn.softmax(relay.nn.dense(x, w)), w)
library = byoc.compile(relay.IRModule.from_expr(Function([x], body)), ["c"])
executor = library.executor(3)
for _ in range(4):
    executor.compute([np.ones((64, 256), "float32")])
print("ran")
"""
SAVED = """
import sys
import numpy as np
import byoc
from byoc import relay
from byoc.relay.expr import Function, var
x = var("x", shape=(4,))
byoc.compile(relay.IRModule.from_expr(Function([x], relay.exp(x))), ["c"]).save(sys.argv[1])
byoc.runtime.load(sys.argv[1]).run(dict(x=np.zeros(4, "float32")))
"""


def script(folder, text, name="script.py"):
    path = folder / name
    path.write_text(text)
    return str(path)


def test_the_variable_names_sanitizers_and_what_excludes_each_other_is_refused(monkeypatch):
    for text, names in (("", ()), (" undefined, address", ("address", "undefined")), ("thread", ("thread",))):
        monkeypatch.setenv(VARIABLE, text)
        assert requested() == names
    for text, message in (("memory", "there is no sanitizer 'memory'"), ("thread,address", "does not go with")):
        monkeypatch.setenv(VARIABLE, text)
        with pytest.raises(UserError, match=message):
            requested()


def test_sanitizers_are_flags_of_the_compiler_so_that_caches_keep_their_code_apart(monkeypatch):
    plain = find_compiler()
    monkeypatch.setenv(VARIABLE, "address")
    checked = find_compiler()
    assert checked.flags == (*plain.flags, *sanitizer_flags(["address"])) and checked.sanitizers == ("address",)
    assert plain.sanitizers == ()


def test_a_process_without_the_library_learns_how_to_start(monkeypatch):
    monkeypatch.setenv(VARIABLE, "address")
    from byoc import relay
    from byoc.relay.expr import Function, var

    x = var("x", shape=(4,))
    module = relay.IRModule.from_expr(Function([x], relay.exp(x)))
    with pytest.raises(UserError, match=r"start Python with LD_PRELOAD='.*libasan.*' ASAN_OPTIONS=.*or use byoc run"):
        byoc.compile(module, ["c"])


def test_a_module_says_which_sanitizers_it_needs_and_what_was_edited_is_refused():
    code = contract_text(contract_of([], None, ["address"])).encode()
    module = DsoModule(code, [], "", sanitizers=["address"])
    assert "built with the address sanitizer" in (module.unavailable() or "")
    members = module.save()
    assert DsoModule.load(members).sanitizers == ("address",)
    with pytest.raises(ArtifactError, match="expected names of address, undefined, thread"):
        DsoModule.load({**members, "sanitizers.json": b'["magic"]'})
    with pytest.raises(ArtifactError, match="compile the model again"):  # its contract names them too
        DsoModule.load({name: data for name, data in members.items() if name != "sanitizers.json"})


PLACES = [(w, h, k) for w, h in (("host", "whole"), ("host", "nodes"), ("region", "whole")) for k in (1, -1)]


@pytest.mark.parametrize(
    "where, how, offset", [PLACES[0], *(pytest.param(*place, marks=pytest.mark.slow) for place in PLACES[1:])]
)
def test_a_kernel_that_oversteps_its_buffer_into_a_neighbours_is_found(where, how, offset, tmp_path):
    done = run_under("address", tmp_path, [script(tmp_path, BROKEN.format(offset=offset)), where, how])
    assert "compiled" in done.stdout and "ran" not in done.stdout and done.returncode != 0, done.everything
    assert "ERROR: AddressSanitizer" in done.reports, done.everything
    assert "test_sanitize_behind_" in done.reports, done.everything  # the function of the group, by its name


@pytest.mark.slow
def test_a_barrier_that_is_missing_is_found(tmp_path):
    for kind in ("sound", "racing"):
        done = run_under("thread", tmp_path / kind, [script(tmp_path, RACING), kind])
        assert ("ThreadSanitizer: data race" in done.reports) == (kind == "racing"), done.everything
        assert ("ran" in done.stdout) == (kind == "sound")


@pytest.mark.slow
def test_undefined_behaviour_is_found(tmp_path):
    text = """
import ctypes
from byoc.codegen.c.toolchain.compiler import find_compiler
library = find_compiler().build("int quotient(int a, int b); int quotient(int a, int b) {{ return a / b; }}")
open({path!r}, "wb").write(library)
ctypes.CDLL({path!r}).quotient(1, 0)
"""
    done = run_under("undefined", tmp_path, [script(tmp_path, text.format(path=str(tmp_path / "lib.so")))])
    assert done.returncode != 0 and "division by zero" in done.reports + done.stderr, done.everything


@pytest.mark.slow
def test_an_artefact_with_a_sanitizer_is_refused_where_it_cannot_run(tmp_path):
    path = tmp_path / "m.byoc"
    done = run_under("address", tmp_path, [script(tmp_path, SAVED), str(path)])
    assert (done.returncode, done.reports) == (0, ""), done.everything
    with pytest.raises(UnavailableError, match="built with the address sanitizer, whose library this process was not"):
        byoc.runtime.load(path)


def test_the_command_line_starts_itself_again_with_the_library(tmp_path):
    from onnx import TensorProto, helper, save

    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", [x], [y])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    env = {k: v for k, v in environment("address", tmp_path).items() if k != "LD_PRELOAD"}
    env["ASAN_OPTIONS"] = "detect_leaks=0:verbosity=1"
    command = [sys.executable, "-m", "byoc.cli.main", "run", str(tmp_path / "m.onnx"), "--random"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0 and "y: float32[4]" in done.stdout, done.stderr
    assert "AddressSanitizer Init done" in done.stderr
    done = subprocess.run(command, capture_output=True, text=True, env={**env, "BYOC_SANITIZE": "magic"}, check=False)
    assert done.returncode == 2 and "there is no sanitizer 'magic'" in done.stderr
