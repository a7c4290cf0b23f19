"""``runtime.CSourceModuleCreate``: an integration that writes C for TVM's runtime runs, is saved, reports errors."""

from __future__ import annotations

import numpy as np
import pytest
from run_alone import run_alone

pytestmark = pytest.mark.needs_cc

CODE = """
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>
#include <dlpack/dlpack.h>
#include <math.h>

static void acme_tanh_(const float* in, float* out, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) out[i] = factor * tanhf(in[i]);
}

static int acme_wrapper_(DLTensor* in, DLTensor* out) {
  if (in->dtype.code != kDLFloat || in->dtype.bits != 32 || in->ndim != 2 || in->strides) return -1;
  acme_tanh_((float*)in->data, (float*)out->data, in->shape[0] * in->shape[1], FACTOR);
  return 0;
}

TVM_DLL int32_t SYMBOL(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code) {
  if (num_args != 2 || type_code[0] != kTVMDLTensorHandle) return -2;
  return acme_wrapper_((DLTensor*)args[0].v_handle, (DLTensor*)args[1].v_handle);
}
"""


def source(symbol, factor="2.0f"):
    return CODE.replace("SYMBOL", symbol).replace("FACTOR", factor)


@pytest.fixture
def acme(tvm):
    """An integration in TVM's words, whose module ``runtime.CSourceModuleCreate`` makes."""

    @tvm.register_func("relay.ext.acme_c", override=True)
    def compile_region(function):
        symbol = function.attrs["global_symbol"]
        return tvm.get_global_func("runtime.CSourceModuleCreate")(source(symbol), "c", [symbol], [])

    @tvm.ir.register_op_attr("tanh", "target.acme_c")
    def takes(expr):
        return True


def cut(tvm):
    from tvm import relay

    x = relay.var("x", shape=(2, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.add(relay.tanh(x), relay.const(1.0))))
    steps = [relay.transform.InferType(), relay.transform.AnnotateTarget("acme_c")]
    return tvm.transform.Sequential([*steps, relay.transform.PartitionGraph()])(mod)


X = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
WANTED = 2 * np.tanh(X) + 1


@pytest.mark.parametrize("kind", ["graph", "vm"])
def test_a_region_in_c_runs_on_the_executors(tvm, acme, kind):
    found = tvm.relay.create_executor(kind, cut(tvm), tvm.cpu(), "llvm").evaluate()(X).numpy()
    np.testing.assert_allclose(found, WANTED, rtol=1e-6)


def test_it_is_saved_and_runs_in_a_process_of_the_runtime_alone(tvm, acme, tmp_path):
    library = tvm.relay.build(cut(tvm), "llvm")
    library.export_library(str(tmp_path / "m.byoc"))
    np.testing.assert_allclose(run_alone(tmp_path, "m.byoc", X), WANTED, rtol=1e-6)


def test_what_it_returns_and_what_the_compiler_says_are_reported(tvm):
    create = tvm.get_global_func("runtime.CSourceModuleCreate")
    module = create(source("acme_0"), "c", ["acme_0"], [])
    assert "acme_wrapper_" in module.get_source()
    with pytest.raises(RuntimeError, match="acme_0 returned -1"):
        module["acme_0"](tvm.nd.array(X.astype("float64")), tvm.nd.array(np.zeros_like(X)))
    with pytest.raises(RuntimeError, match="no visible function 'acme_1'"):
        create(source("acme_0"), "c", ["acme_1"], [])["acme_1"]
    with pytest.raises(RuntimeError, match="refused generated code"):
        create(source("acme_0", "nothing_of_that_name"), "c", ["acme_0"], [])
    in_cxx = "#include <tvm/runtime/packed_func.h>\n" + source("acme_0")
    with pytest.raises(
        RuntimeError, match=r"packed_func.h is C\+\+: make the module with fmt cc, or write C functions"
    ):
        create(in_cxx, "c", ["acme_0"], [])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("int f;", "ll", ["f"], []), r"code in c, cc, cpp, cxx, c\+\+, got 'll'"),
        (("int f;", "c", [], []), "names of the functions"),
        (("int f;", "c", ["f"], ["f_const_0"]), "constant 'f_const_0' is for a function __init_f"),
    ],
)
def test_what_it_cannot_take_is_one_sentence(tvm, arguments, text):
    with pytest.raises(Exception, match=text):
        tvm.get_global_func("runtime.CSourceModuleCreate")(*arguments)
