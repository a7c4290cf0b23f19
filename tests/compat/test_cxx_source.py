"""``runtime.CSourceModuleCreate`` of C++, as TVM's own generators emit it, with constants by ``const_vars``."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from run_alone import run_alone

pytestmark = [
    pytest.mark.needs_cc,
    pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="no C++ compiler"),
]

CODE = """
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/container/array.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <dlpack/dlpack.h>
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>
using namespace tvm::runtime;

static Array<NDArray> SYMBOL_consts;

extern "C" void SYMBOL_(const float* in, const float* weight, float* out, int64_t rows, int64_t columns) {
  std::vector<float> sums(columns);
  for (int64_t i = 0; i < rows; ++i)
    std::transform(in + i * columns, in + (i + 1) * columns, weight, out + i * columns,
                   [](float a, float b) { return a + b; });
}

int SYMBOL_wrapper_(DLTensor* in, DLTensor* out) {
  if (in->ndim != 2) throw std::runtime_error("two dimensions, please");
  SYMBOL_(static_cast<float*>(in->data), static_cast<float*>(SYMBOL_consts[0]->data), static_cast<float*>(out->data),
          in->shape[0], SYMBOL_consts[0]->shape[0]);
  return 0;
}
TVM_DLL_EXPORT_TYPED_FUNC(SYMBOL, SYMBOL_wrapper_);

int SYMBOL_init_wrapper_(Array<NDArray> given) {
  if (given.size() != 1) throw std::runtime_error("one constant, please");
  SYMBOL_consts = given;
  return 0;
}
TVM_DLL_EXPORT_TYPED_FUNC(__init_SYMBOL, SYMBOL_init_wrapper_);
"""
IN_C = """
#include <tvm/runtime/c_runtime_api.h>
static float* weight;
TVM_DLL int __init_SYMBOL(TVMValue* args, int* codes, int count, TVMValue* result, int* result_code) {
  weight = (float*)((DLTensor*)args[0].v_handle)->data;
  return count == 1 ? 0 : -1;
}
TVM_DLL int SYMBOL(TVMValue* args, int* codes, int count, TVMValue* result, int* result_code) {
  const DLTensor *in = args[0].v_handle, *out = args[1].v_handle;
  for (int64_t k = 0; k < in->shape[0] * in->shape[1]; ++k)
    ((float*)out->data)[k] = ((float*)in->data)[k] + weight[k % in->shape[1]];
  return 0;
}
"""
WEIGHT = np.float32([1, 20, 300])
X = np.arange(6, dtype="float32").reshape(2, 3)


def create(tvm, symbol="acme_0", code=CODE, fmt="cc", constants=("acme_0_const_0",)):
    return tvm.get_global_func("runtime.CSourceModuleCreate")(
        code.replace("SYMBOL", symbol), fmt, [symbol], list(constants)
    )


@pytest.fixture(params=["cc", "cpp", "c"])
def acme(tvm, request):
    """An integration whose additions of a constant are C++, or C, which is given the constant."""

    @tvm.register_func("relay.ext.acme_cxx", override=True)
    def compile_region(function):
        symbol = function.attrs["global_symbol"]
        code = IN_C if request.param == "c" else CODE
        return create(tvm, symbol, code, request.param, [f"{symbol}_const_0"])

    @tvm.ir.register_op_attr("add", "target.acme_cxx")
    def takes(expr):
        return True


def cut(tvm):
    from tvm import relay

    x = relay.var("x", shape=(2, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.tanh(relay.add(x, relay.const(WEIGHT)))))
    steps = [relay.transform.InferType(), relay.transform.AnnotateTarget("acme_cxx")]
    return tvm.transform.Sequential([*steps, relay.transform.PartitionGraph()])(mod)


@pytest.mark.parametrize("kind", ["graph", "vm"])
def test_constants_are_handed_to_the_function_that_initialises_it(tvm, acme, kind):
    found = tvm.relay.create_executor(kind, cut(tvm), tvm.cpu(), "llvm").evaluate()(X).numpy()
    np.testing.assert_allclose(found, np.tanh(X + WEIGHT), rtol=1e-6)


def test_it_is_saved_and_runs_in_a_process_of_the_runtime_alone(tvm, acme, tmp_path):
    library = tvm.relay.build(cut(tvm), "llvm")
    library.export_library(str(tmp_path / "m.byoc"))
    first = run_alone(tmp_path, "m.byoc", X)
    np.testing.assert_allclose(first, np.tanh(X + WEIGHT), rtol=1e-6)
    np.testing.assert_array_equal(run_alone(tmp_path, "again-m.byoc", X), first)


def test_what_cxx_throws_is_reported(tvm):
    module = create(tvm)
    with pytest.raises(RuntimeError, match=r"__init_acme_0 returned -1, .*: one constant, please"):
        module.initialize("acme_0", [tvm.nd.array(WEIGHT), tvm.nd.array(WEIGHT)])
    module.initialize("acme_0", [tvm.nd.array(WEIGHT)])
    with pytest.raises(RuntimeError, match=r"acme_0 returned -1, and 0 where all goes well: two dimensions, please"):
        module["acme_0"](tvm.nd.array(WEIGHT), tvm.nd.array(WEIGHT))
    with pytest.raises(RuntimeError, match=r"acme_0 returned -1, .*: it takes 2 tensors and was given 1"):
        module["acme_0"](tvm.nd.array(X))


def test_constants_without_a_function_for_them_are_one_sentence(tvm):
    code = CODE.replace("__init_SYMBOL", "__start_SYMBOL")
    with pytest.raises(
        Exception, match="'acme_0_const_0' is for a function __init_acme_0, which the code does not have"
    ):
        create(tvm, code=code)


@pytest.mark.parametrize("code, fmt", [(CODE, "cc"), (IN_C, "c")])
def test_a_function_for_constants_that_are_not_named_is_one_sentence(tvm, code, fmt):
    """It ran on what it was never given, and gave zeros."""
    with pytest.raises(Exception, match="const_vars names nothing for it: give their names, acme_0_const_0 and so on"):
        create(tvm, code=code, fmt=fmt, constants=())


def test_a_constant_of_another_name_is_one_sentence_with_those_that_there_are(tvm):
    @tvm.register_func("relay.ext.acme_cxx", override=True)
    def compile_region(function):
        symbol = function.attrs["global_symbol"]
        return create(tvm, symbol, IN_C, "c", [f"{symbol}_weight_0"])

    @tvm.ir.register_op_attr("add", "target.acme_cxx")
    def takes(expr):
        return True

    with pytest.raises(
        Exception, match=r"asks for the constant '\w+_weight_0'; the constants of (\w+) are \1_const_0,"
    ):
        tvm.relay.build(cut(tvm), "llvm")


@pytest.mark.parametrize("asked", [{"backend_options": {"acme_cxx": {"speed": 2}}}, {}])
def test_options_of_a_backend_are_where_integrations_look_for_them(tvm, acme, asked):
    import byoc

    compiler, seen = tvm.get_global_func("relay.ext.acme_cxx"), []

    @tvm.register_func("relay.ext.acme_cxx", override=True)
    def compile_region(function):
        seen.append(tvm.transform.PassContext.current().config.get("relay.ext.acme_cxx.options"))
        return compiler(function)

    x = tvm.relay.var("x", shape=(2, 3))
    mod = tvm.IRModule.from_expr(tvm.relay.Function([x], tvm.relay.add(x, tvm.relay.const(WEIGHT))))
    found = byoc.compile(mod, targets=["acme_cxx", "c"], **asked)(X)
    np.testing.assert_allclose(found, X + WEIGHT)
    assert seen == [{"speed": 2} if asked else None]


def test_a_function_that_is_not_extern_c_is_one_sentence(tvm):
    module = create(tvm, code="int SYMBOL(void*) { return 0; }", constants=())
    with pytest.raises(
        RuntimeError, match=r"no visible function 'acme_0': declare it with TVM_DLL, in C\+\+ in extern"
    ):
        module["acme_0"]


def test_a_machine_without_a_cxx_compiler_says_so(tvm, monkeypatch):
    monkeypatch.setenv("CXX", "/bin/false")
    with pytest.raises(Exception, match=r"\$CXX is '/bin/false', which does not work as a C\+\+ compiler here"):
        create(tvm)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Exception, match=r"code in C\+\+ needs a C\+\+ compiler, and none works here: install g\+\+"):
        create(tvm)
