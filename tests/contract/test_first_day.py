"""What new vendors stumbled over: each mistake has its sentence, or is none any more."""

import subprocess
import sys

import numpy as np
import pytest

import byoc
from byoc import relay
from byoc.contract import BACKENDS, get_backend
from byoc.contract.importing import import_backend
from byoc.errors import UserError
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.kernels import KERNELS, KernelBackend, kernel
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES
from byoc.testing import certify

ENDLESS = """
import numpy as np
import byoc
from byoc import relay
from byoc.codegen.c.region_source import compiled_region
from byoc.contract import Backend, constraints, register_backend, steps_of

@register_backend
class Endless(Backend):
    name = "endless"
    constraints = (constraints.operators("exp"),)

    def compile(self, function, options):
        return compiled_region(steps_of(function), ["  for (volatile int k = 0; ; ) k = 1;"])

x = relay.var("x", shape=(4,))
library = byoc.compile(byoc.IRModule.from_expr(relay.Function([x], relay.exp(x))), ["endless", "c"])
library.run({"x": np.ones(4, "float32")}, timeout=1.0)
"""


@pytest.mark.needs_cc
def test_a_loop_without_an_end_in_a_vendors_c_is_left_when_the_time_is_over():
    done = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True, timeout=120)
    assert "RunTimeoutError: the run took longer than its timeout of 1 s while endless computed" in done.stderr


def test_a_file_that_is_written_for_tvm_says_how_it_runs(tmp_path):
    path = tmp_path / "acme_tvm.py"
    path.write_text("import tvm.relay\n")
    with pytest.raises(UserError, match=r"No module named 'tvm'.*python -m byoc.compat.tvm -m byoc"):
        import_backend(str(path))


@pytest.fixture
def forgotten():
    names = []
    with KERNELS.temporary():
        yield names.append
    for name in names:
        for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
            registry.unregister(name)
        GLOBAL_FUNCTIONS.unregister(f"relay.ext.{name}")


def module_of(call, *params):
    return relay.transform.InferType()(byoc.IRModule.from_expr(relay.Function(list(params), call)))


def test_a_kernel_at_a_place_knows_the_layout_of_the_place(forgotten):
    forgotten("rows_last")

    @byoc.contract.register_backend
    class RowsLast(KernelBackend):
        """Pools of images with channels innermost."""

        name = "rows_last"

    @kernel("nn.global_avg_pool2d", "rows_last/float/NHWC")
    def mean(data: np.ndarray) -> np.ndarray:
        return data.mean((1, 2), keepdims=True)

    x = relay.var("x", shape=(1, 4, 5, 3))
    for layout, taken in (("NHWC", True), ("NCHW", False)):
        call = module_of(relay.nn.global_avg_pool2d(x, layout=layout), x)["main"].body
        assert bool(get_backend("rows_last").supports(call)) == taken


def test_the_error_of_a_kernel_that_writes_to_its_input_says_what_to_do(forgotten):
    forgotten("in_place")

    @byoc.contract.register_backend
    class InPlace(KernelBackend):
        """A relu in place."""

        name = "in_place"

    @kernel("nn.relu", "in_place/float/any")
    def relu(data: np.ndarray) -> np.ndarray:
        return np.maximum(data, 0, out=data)

    x = relay.var("x", shape=(3,))
    library = byoc.compile(module_of(relay.nn.relu(x), x), ["in_place", "c"])
    with pytest.raises(UserError, match="inputs and constants are only read: give a new array, or fill the output"):
        library.run({"x": np.ones(3, "float32")})


def test_an_integration_in_relays_style_is_certified_by_its_name(forgotten):
    from byoc.ir.op import register_op_attr
    from byoc.ir.registry import register_func

    register_op_attr("nn.relu", "target.in_style")(lambda call: True)
    register_func("relay.ext.in_style")(lambda function: get_backend("json").compile(function, {}))
    try:
        found = certify("in_style", only=["nn.relu"], saved=False)
    finally:
        GLOBAL_FUNCTIONS.unregister("relay.ext.in_style")
    assert found.counts()["right"] and not found.counts()["wrong"], str(found)
