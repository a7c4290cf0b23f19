"""Ahead-of-time tests as Relay's users write them: a module becomes a program in C, which is run and compared."""

from __future__ import annotations

import numpy as np
import pytest

X, W = np.arange(12, dtype="float32").reshape(3, 4) / 7, np.full((4,), 2, "float32")


@pytest.fixture
def aot(tvm):
    """``tvm.testing.aot``, where a C compiler is."""
    if tvm.support.libinfo()["USE_MICRO"] != "ON":
        pytest.skip("there is no C compiler")
    import tvm.testing.aot

    return tvm.testing.aot


def _module(tvm, compiler=None):
    from tvm import relay

    a, b = relay.var("a", shape=(3, 4)), relay.var("b", shape=(4,))
    inner = relay.Function([a, b], relay.multiply(a, b))
    if compiler is not None:
        for key, value in (("Primitive", 1), ("Inline", 1), ("Compiler", compiler), ("global_symbol", f"{compiler}_0")):
            inner = inner.with_attr(key, value)
    x, w = relay.var("x", shape=(3, 4)), relay.var("w", shape=(4,))
    product = relay.Call(inner, [x, w])
    return tvm.IRModule.from_expr(relay.Function([x, w], relay.Tuple([relay.exp(product), relay.cast(x, "int32")])))


EXPECTED = [np.exp(X * W), X.astype("int32")]


@pytest.mark.parametrize("compiler", [None, "ccompiler"])
@pytest.mark.parametrize("interface_api, use_unpacked_api", [("packed", False), ("c", True)])
def test_a_module_is_built_as_c_run_and_compared(tvm, aot, compiler, interface_api, use_unpacked_api, tmp_path):
    from tvm.micro.testing.aot_test_utils import AOT_DEFAULT_RUNNER

    model = aot.AOTTestModel(_module(tvm, compiler), {"x": X}, EXPECTED, params={"w": W})
    assert aot.compile_and_run(model, AOT_DEFAULT_RUNNER, interface_api, use_unpacked_api, test_dir=tmp_path) is True
    source = (tmp_path / "0_default" / "model.c").read_text()
    assert "exp" in source  # what ran is this program, which needs nothing of ours


def test_a_wrong_expectation_is_reported_with_its_output(tvm, aot):
    model = aot.AOTTestModel(_module(tvm), {"x": X, "w": W}, [EXPECTED[0], EXPECTED[1] + 1], name="net")
    with pytest.raises(AssertionError, match="output 1 of net"):
        aot.compile_and_run([model], interface_api="c", use_unpacked_api=True)
    off = aot.AOTTestModel(_module(tvm), {"x": X, "w": W}, [EXPECTED[0] + 0.01, EXPECTED[1] + 1], output_tolerance=1)
    assert aot.compile_and_run(off, interface_api="packed", use_unpacked_api=False)


def test_a_region_of_another_generator_is_built_saved_loaded_and_run(tvm, aot, tmp_path):
    from byoc.codegen.json.backend import JsonBackend

    tvm.register_func("relay.ext.acme_aot", lambda function: JsonBackend().compile(function, {}))
    model = aot.AOTTestModel(_module(tvm, "acme_aot"), {"x": X, "w": W}, EXPECTED)
    assert aot.compile_and_run(model, interface_api="c", use_unpacked_api=True, test_dir=tmp_path)
    assert (tmp_path / "0_default" / "default.byoc").exists()


def test_reference_data_has_relay_s_names(tvm, aot):
    found = aot.generate_ref_data(_module(tvm), {"x": X}, {"w": W})
    assert list(found) == ["output", "output2"]
    np.testing.assert_allclose(found["output"], EXPECTED[0], rtol=1e-6)


def test_what_is_not_here_says_so_in_one_sentence(tvm, aot):
    from tvm.micro.testing.aot_test_utils import AOT_CORSTONE300_RUNNER, AOT_DEFAULT_RUNNER

    model = aot.AOTTestModel(_module(tvm), {"x": X, "w": W}, EXPECTED)
    with pytest.raises(NotImplementedError, match="corstone300.*simulator of a board"):
        aot.compile_and_run(model, AOT_CORSTONE300_RUNNER, "c", True)
    with pytest.raises(tvm.TVMError, match="interface_api is one of c, packed"):
        aot.compile_and_run(model, AOT_DEFAULT_RUNNER, "rust", True)
    with pytest.raises(tvm.TVMError, match="main takes 'w', for which there is no input"):
        aot.compile_and_run(aot.AOTTestModel(_module(tvm), {"x": X}, EXPECTED), AOT_DEFAULT_RUNNER, "c", True)
    with pytest.raises(NotImplementedError, match="tvm.micro"):
        tvm.micro.generate_project("board")


def test_a_test_is_run_for_each_way_to_call_generated_code(tvm, aot):
    from tvm.micro.testing.aot_test_utils import parametrize_aot_options

    @parametrize_aot_options
    def decorated(interface_api, use_unpacked_api, test_runner):
        """Never called."""

    mark = decorated.pytestmark[0]
    assert [way[:2] for way in mark.args[1]] == [("packed", False), ("c", False), ("c", True)]
