"""The process that runs artefacts: constants are read-only memory there, and its death is reported as a failure."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.runtime.dso.whole_program import contract_of, contract_text

STORE = """
#include <stdint.h>
__attribute__((used)) const char contract[] = "{contract}";
int32_t {symbol}(void **args, const int64_t *sizes, uint8_t *workspace, const void *team, void *externals);
int32_t {symbol}(void **args, const int64_t *sizes, uint8_t *workspace, const void *team, void *externals) {{
  (void)sizes, (void)workspace, (void)team, (void)externals;
  *(volatile float *)args[{argument}] = 1.0f;
  return 0;
}}
"""


def adding(tmp_path):
    """A library that adds weights to its input, and the path of its artefact."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [64]) for n in "xy")
    weights = numpy_helper.from_array(np.arange(64, dtype="float32"), "w")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    library = byoc.compile(model, ["c"])
    return library, library.save(tmp_path / "adding.byoc")


@pytest.mark.needs_cc
def test_what_an_artefact_computes_comes_back_from_the_process(artifact_runner, tmp_path):
    _, path = adding(tmp_path)
    x = np.ones(64, "float32")
    ((found,),) = artifact_runner.run(path, [{"x": x}])
    np.testing.assert_array_equal(found, x + np.arange(64, dtype="float32"))
    with pytest.raises(byoc.errors.InputError, match="expected shape"):
        artifact_runner.run(path, [{"x": x[:3]}])


@pytest.mark.needs_cc
def test_a_store_to_a_constant_kills_the_process_and_fails_the_test_by_name(artifact_runner, tmp_path):
    library, _ = adding(tmp_path)
    (native,) = library.module.imports
    contract = contract_text(contract_of(list(native.signatures.values()), native.whole))
    source = STORE.format(symbol=native.whole.symbol, argument=1, contract=contract)
    native._library = find_compiler().build(source)
    path = library.save(tmp_path / "storing.byoc")
    with pytest.raises(pytest.fail.Exception, match=r"storing\.byoc ended: SIGSEGV"):
        artifact_runner.run(path, [{"x": np.ones(64, "float32")}])
    test_what_an_artefact_computes_comes_back_from_the_process(artifact_runner, tmp_path)


@pytest.mark.needs_cc
def test_constants_in_process_refuse_to_be_written(tmp_path):
    library, path = adding(tmp_path)
    for each in (library, byoc.runtime.load(path)):
        for array in each.module.constant_arrays.values():
            with pytest.raises(ValueError, match="read-only"):
                array.numpy()[...] = 0
