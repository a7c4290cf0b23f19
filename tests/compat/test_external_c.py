"""``relay.ext.ccompiler`` with the targets that a build is given; arrays that are copied into others."""

from __future__ import annotations

import numpy as np
import pytest

X = np.arange(64, dtype="int32").reshape(8, 8)


@pytest.fixture
def module(tvm):
    """A module whose addition is a region of ``ccompiler``."""
    from tvm import relay

    a, b = (relay.var(name, shape=(8, 8), dtype="int32") for name in "ab")
    inner = relay.Function([a, b], relay.add(a, b))
    for key, value in (("Primitive", 1), ("Inline", 1), ("Compiler", "ccompiler"), ("global_symbol", "ccompiler_0")):
        inner = inner.with_attr(key, value)
    x = relay.var("x", shape=(8, 8), dtype="int32")
    return tvm.IRModule.from_expr(relay.Function([x], relay.Call(inner, [x, relay.const(X)])))


def _run(tvm, kind, module, target):
    return tvm.relay.create_executor(kind, module, tvm.cpu(), target).evaluate()(X).numpy()


@pytest.mark.parametrize("kind", ["graph", "vm", "aot"])
def test_the_header_of_the_region_s_target_stands_before_its_c(tvm, kind, module):
    host = tvm.target.Target("llvm")
    good = tvm.target.Target({"kind": "ccompiler", "header": "/* before all */"}, host=host)
    np.testing.assert_array_equal(_run(tvm, kind, module, [host, good]), X + X)
    bogus = tvm.target.Target({"kind": "ccompiler", "header": "Bogus"}, host=host)
    with pytest.raises(RuntimeError, match="ccompiler.*refused generated code"):
        _run(tvm, kind, module, [host, bogus])
    np.testing.assert_array_equal(_run(tvm, kind, module, "llvm"), X + X)  # without one nothing stands before


def test_the_generated_source_has_the_header(tvm, module):
    target = tvm.target.Target({"kind": "ccompiler", "header": "/* mine */"})
    library = tvm.relay.build(module, [tvm.target.Target("llvm"), target])
    assert any("/* mine */" in one.get_source() for one in _all_modules(library.get_lib()))


def _all_modules(module):
    yield module
    for inner in module.imported_modules:
        yield from _all_modules(inner)


@pytest.mark.parametrize("kind", ["graph", "vm"])
def test_a_region_s_generator_sees_the_target_of_its_kind_as_current(tvm, kind, module):
    from byoc.compat.tvm_modules.ccompiler import compile_region

    seen = []

    @tvm.register_func("relay.ext.acme_lib")
    def generate(function):
        seen.append((tvm.target.Target.current(), len(tvm.target.Target._stack())))
        return compile_region(function)

    from tvm import relay

    inner = module["main"].body.op.with_attr("Compiler", "acme_lib")
    mod = tvm.IRModule.from_expr(relay.Function(module["main"].params, relay.Call(inner, module["main"].body.args)))
    mine = tvm.target.Target("acme_lib -level=3")
    np.testing.assert_array_equal(_run(tvm, kind, mod, [tvm.target.Target("llvm"), mine]), X + X)
    assert [(str(target.kind), target.attrs["level"], depth) for target, depth in seen] == [("acme_lib", "3", 1)]
    assert tvm.target.Target.current() is None


# arrays ---------------------------------------------------------------------------------------------------------


def test_an_array_takes_the_bytes_of_another_and_the_numbers_of_numpy(tvm):
    ones = np.ones(2, "int32")
    taken = tvm.nd.empty((2,)).copyfrom(tvm.nd.array(ones))
    np.testing.assert_array_equal(taken.numpy(), ones.view("float32"))
    np.testing.assert_array_equal(tvm.nd.empty((2,)).copyfrom(ones).numpy(), ones.astype("float32"))
    out = tvm.nd.empty((2,))
    assert tvm.nd.array(ones).copyto(out) is out
    np.testing.assert_array_equal(out.numpy(), ones.view("float32"))
    for wrong in (tvm.nd.array(np.ones(2, "int64")), tvm.nd.array(np.ones(3, "int32")), np.ones(3)):
        with pytest.raises(ValueError, match="cannot copy"):
            tvm.nd.empty((2,)).copyfrom(wrong)


def test_an_output_is_copied_as_bytes_and_byoc_s_library_stays_strict(tvm):
    from tvm import relay
    from tvm.contrib import graph_executor

    import byoc.runtime
    from byoc.errors import InputError

    x = relay.var("x", shape=(2,))
    library = relay.build(tvm.IRModule.from_expr(relay.Function([x], x + x)), "llvm")
    made = graph_executor.GraphModule(library["default"](tvm.cpu()))
    made.run(x=np.ones(2, "float32"))
    out = made.get_output(0, tvm.nd.empty((2,), "int32")).numpy()
    np.testing.assert_array_equal(out, np.full(2, 2, "float32").view("int32"))
    assert isinstance(library.library, byoc.runtime.library.Library)
    with pytest.raises(InputError, match="expected dtype float32, got int32"):
        library.library.run({"x": np.ones(2, "int32")})
