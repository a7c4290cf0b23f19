"""Executables as bytes and files: the same result after loading, also where no compiler is, and damage is found."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import byoc
from byoc import relay, runtime
from byoc.driver.vm import compile_module
from byoc.errors import ArtifactError, UserError
from byoc.runtime import cpu
from byoc.runtime.vm import Executable, VirtualMachine

pytestmark = pytest.mark.needs_cc
INT = relay.TensorType((), "int32")


def loop_module():
    """Sums 1 to n in a recursive function, with a closure and a weight in main."""
    loop, i, total = relay.GlobalVar("loop"), relay.var("i", INT), relay.var("total", INT)
    again = relay.Call(loop, [relay.subtract(i, relay.const(1)), relay.add(total, i)])
    body = relay.If(relay.greater(i, relay.const(0)), again, total)
    mod = relay.IRModule({loop: relay.Function([i, total], body, INT)})
    n, k, x = relay.var("n", INT), relay.var("k", INT), relay.var("x", shape=(relay.Any("N"), 3))
    closure = relay.Function([k], relay.add(k, n))
    dense = relay.nn.dense(x, relay.const(np.arange(6, dtype="float32").reshape(2, 3)))
    body = relay.Tuple([relay.Call(closure, [relay.Call(loop, [n, relay.const(0)])]), dense, relay.argwhere(x)])
    mod["main"] = relay.Function([n, x], body)
    return mod


DATA = np.array([[1, 0, 2]], "float32")


def check(machine):
    total, product, places = machine.run(np.int32(10), DATA)
    assert total.numpy() == 65
    np.testing.assert_array_equal(product.numpy(), [[4, 13]])
    np.testing.assert_array_equal(places.numpy(), [[0, 0], [0, 2]])


def test_bytes_and_library_make_the_same_executable(tmp_path):
    executable = compile_module(loop_module())
    code, library = executable.save()
    assert isinstance(code, bytearray) and isinstance(library, runtime.Module)
    library.export_library(tmp_path / "lib.so")
    loaded = runtime.load_module_tree(tmp_path / "lib.so")
    again = Executable.load_exec(bytes(code), loaded)
    check(VirtualMachine(again, cpu()))
    assert again.bytecode == executable.bytecode and again.save()[0] == code
    assert compile_module(loop_module()).save()[0] == code


def test_the_whole_executable_is_one_file(tmp_path):
    compile_module(loop_module()).mod.export_library(tmp_path / "vm.so")
    module = runtime.load_module_tree(tmp_path / "vm.so")
    assert module.type_key == "VMExecutable" and module.imports[0].type_key == "metadata"
    check(VirtualMachine(module, cpu()))


SCRIPT = """
import json, sys
import numpy as np
import byoc.runtime
from byoc.runtime.vm import Executable, VirtualMachine

library = byoc.runtime.load_module_tree(sys.argv[1])
machine = VirtualMachine(Executable.load_exec(open(sys.argv[2], "rb").read(), library), byoc.runtime.cpu())
results = [value.numpy().tolist() for value in machine.run(np.int32(10), np.array([[1, 0, 2]], "float32"))]
whole = VirtualMachine(byoc.runtime.load_module_tree(sys.argv[3]), byoc.runtime.cpu())
again = [value.numpy().tolist() for value in whole.run(10, np.array([[1, 0, 2]], "float32"))]
compiler = [m for m in sys.modules if m.startswith(("byoc.ir", "byoc.relay", "byoc.codegen", "byoc.driver", "byoc.te"))]
print(json.dumps([results, again, compiler]))
"""


def test_a_process_with_the_runtime_alone_loads_and_runs(tmp_path):
    executable = compile_module(loop_module())
    code, library = executable.save()
    library.export_library(tmp_path / "lib.so")
    (tmp_path / "code.ro").write_bytes(code)
    executable.mod.export_library(tmp_path / "vm.so")
    files = [str(tmp_path / name) for name in ("lib.so", "code.ro", "vm.so")]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *files], capture_output=True, text=True, check=True)
    results, again, compiler = json.loads(done.stdout)
    assert results == again == [65, [[4, 13]], [[0, 0], [0, 2]]] and compiler == []


def test_what_is_in_an_executable_can_be_asked():
    executable = compile_module(loop_module())
    assert executable.globals[:2] == ["loop", "main"] and executable.get_function_params("main") == ["n", "x"]
    assert executable.get_function_arity("loop") == 2
    assert "loop(i, total)" in executable.bytecode and "main(n, x)" in executable.bytecode
    assert any("nn_dense" in name for name in executable.primitive_ops)
    stats = executable.stats
    assert '("loop", 0), ("main", 1)' in stats and "Constant shapes (# 2): [scalar, 2x3]" in stats
    with pytest.raises(UserError, match="cannot find function 'none'"):
        executable.get_function_params("none")


def test_large_constants_are_kept_outside(tmp_path):
    x, weight = relay.var("x", shape=(1000,)), np.arange(1000, dtype="float32")
    executable = compile_module(relay.IRModule.from_expr(relay.Function([x], relay.add(x, relay.const(weight)))))
    executable.move_late_bound_consts(tmp_path / "consts", byte_limit=256)
    assert len(executable.save()[0]) < 4000 and (tmp_path / "consts").stat().st_size >= 4000
    executable.mod.export_library(tmp_path / "vm.so")
    module = runtime.load_module_tree(tmp_path / "vm.so")
    with pytest.raises(ArtifactError, match="load it with load_late_bound_consts"):
        VirtualMachine(module, cpu()).run(weight)
    module["load_late_bound_consts"](tmp_path / "consts")
    np.testing.assert_array_equal(VirtualMachine(module, cpu()).run(weight).numpy(), 2 * weight)


def test_a_constant_that_was_moved_must_come_back():
    x = relay.var("x", shape=(2,))
    executable = compile_module(relay.IRModule.from_expr(relay.Function([x], relay.add(x, relay.const([1.0, 2.0])))))
    moved = executable.get_late_bound_consts(0)
    with pytest.raises(UserError, match="the constants lack const_0"):
        executable.load_late_bound_consts_from_map({})
    executable.load_late_bound_consts_from_map(moved)
    assert executable.constants[0] is moved["const_0"]


def test_constants_that_cannot_be_written_stay_and_others_are_passed_over(tmp_path):
    x = relay.var("x", shape=(2,))
    executable = compile_module(relay.IRModule.from_expr(relay.Function([x], relay.add(x, relay.const([1.0, 2.0])))))
    constant = executable.constants[0]
    with pytest.raises(UserError, match="cannot be written"):
        executable.move_late_bound_consts(tmp_path / "missing" / "consts", byte_limit=0)
    assert executable.constants[0] is constant
    moved = executable.get_late_bound_consts(0)
    assert executable.constants == [None]
    executable.load_late_bound_consts_from_map({**moved, "another": constant, "const_7": constant})
    assert executable.constants[0] is constant and len(executable.constants) == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (b"anything", "no bytecode"),
        (b"byoc-vm\x00\x08\x00\x00\x00\x00\x00\x00\x00{} and on", "damaged"),
        (b"byoc-vm\x00\x08", "damaged"),
    ],
)
def test_bytes_of_another_kind_are_refused(code, words):
    with pytest.raises(ArtifactError, match=words):
        Executable.load_exec(code, None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"registers":7', '"registers":3'),
        ("[1,6]", "[1,9]"),
        ("[10,2,3,1,5]", "[10,2,3,0,5]"),
        ("[10,2,3,1,5]", "[10,2,3,1,9]"),
        ("[2,6,0,[4,5]]", "[2,6,8,[4,5]]"),
        ("[2,6,0,[4,5]]", "[2,6,0,[4]]"),
        ("[4,1,[0],[4]]", "[4,1,[0],[]]"),
        ("[4,1,[0],[4]]", "[99,1,[0],[4]]"),
        ("[4,1,[0],[4]]", '[4,1,[0],"x"]'),
        ('"version":1', '"version":2'),
    ],
)
def test_a_program_that_does_not_fit_together_is_refused(old, new):
    code, library = compile_module(loop_module()).save()
    length = int.from_bytes(code[8:16], "little")
    text = code[16 : 16 + length].decode()
    assert old in text
    changed = text.replace(old, new, 1).encode()
    with pytest.raises(ArtifactError):
        Executable.load_exec(code[:8] + len(changed).to_bytes(8, "little") + changed + code[16 + length :], library)


def test_arguments_of_another_kind_are_refused():
    code, library = compile_module(loop_module()).save()
    with pytest.raises(TypeError, match="bytecode is expected to be the type of bytearray"):
        Executable.load_exec("text", library)
    with pytest.raises(TypeError, match="lib is expected to be the type of tvm.runtime.Module"):
        Executable.load_exec(code, 7)


def test_a_program_without_its_library_says_what_it_lacks():
    code, _ = compile_module(loop_module()).save()
    with pytest.raises(ArtifactError, match="the library has no function 'vm_mod_fused_greater'"):
        VirtualMachine(Executable.load_exec(code, None), cpu()).run(np.int32(1), DATA)


def test_a_file_of_another_kind_is_no_tree_of_modules(tmp_path):
    x = relay.var("x", shape=(2,))
    byoc.compile(relay.IRModule.from_expr(relay.Function([x], relay.exp(x)))).save(tmp_path / "m.byoc")
    with pytest.raises(ArtifactError, match="holds no tree of modules"):
        runtime.load_module_tree(tmp_path / "m.byoc")


def test_a_module_whose_constants_are_elsewhere_is_not_exported(tmp_path):
    x = relay.var("x", shape=(2, 3))
    weight = relay.const(np.ones((4, 3), "float32"))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, weight)))
    inner = byoc.compile(mod).module.imports[0]
    with pytest.raises(UserError, match="the constants of .* are not in the module"):
        inner.export_library(tmp_path / "lib.so")
