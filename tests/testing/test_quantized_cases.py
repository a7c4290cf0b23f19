"""Cases on integers: what a backend is handed of quantized models is made of the samples of its float operators."""

import subprocess
import sys

import numpy as np
import pytest

import byoc
from byoc.contract import get_backend
from byoc.ir.types import tensor_types
from byoc.testing.cases.operators import BackendAnswers
from byoc.testing.cases.quantized import QUANTIZED, quantized_cases


def cases_of(name, seed=0):
    return list(quantized_cases(BackendAnswers(get_backend(name)), seed))


def test_a_backend_of_integers_has_cases_of_every_instruction():
    cases = cases_of("int8_npu")
    assert {c.operator for c in cases} >= {
        "int8_npu.conv2d",
        "int8_npu.dense",
        "int8_npu.add",
        "qnn.add",
        "nn.max_pool2d",
    }
    assert all(c.kind == QUANTIZED and not c.whole for c in cases)
    assert any("with bias and relu" in c.name for c in cases) and any("with bias on" in c.name for c in cases)
    for case in cases:  # regions of integers, as the planner gives them
        assert {t.dtype for t in tensor_types(case.function.body.checked_type)} == {"int8"}
        assert {a.dtype for a in case.feeds[0]} == {np.dtype("int8")}


def test_the_cases_are_the_same_ones_every_time():
    one, other = ([(c.name, c.text, c.feeds[0][0].tobytes()) for c in cases_of("int8_npu")] for _ in range(2))
    assert one == other
    assert one[0][2] != cases_of("int8_npu", 1)[0].feeds[0][0].tobytes()


def test_a_backend_of_floats_has_none():
    assert not cases_of("blas") and not cases_of("xnnpack")


@pytest.mark.needs_cc
def test_certify_covers_the_npu_without_a_model():
    found = byoc.testing.certify("int8_npu", only=[QUANTIZED], saved=False)
    assert found.ok, str(found)
    assert {"int8_npu.conv2d", "int8_npu.dense", "qnn.add", "nn.max_pool2d"} <= set(found.covered)


WRONG = '''
from byoc.contract import register_backend
from byoc.contrib import npu

@register_backend
class Off(npu.Npu):
    """The NPU, whose integers are off by three."""
    name = "int8_npu"

    def compile(self, function, options):
        module = super().compile(function, options)
        symbol = module.symbols[0]
        inner = module.get_function

        def get_function(name, query_imports=False):
            call = inner(name, query_imports)
            def run(*arrays):
                call(*arrays)
                last = arrays[-1].numpy()
                last ^= 3
            return run
        module.get_function = get_function
        return module
'''


@pytest.mark.needs_cc
@pytest.mark.slow
def test_certify_finds_integers_that_are_off(tmp_path):
    (tmp_path / "off.py").write_text(WRONG.replace("@register_backend", "@register_backend(override=True)"))
    words = ["certify", "int8_npu", "--only", QUANTIZED, "--no-saved", "--import", str(tmp_path / "off.py")]
    done = subprocess.run([sys.executable, "-m", "byoc", *words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 2 and "int8_npu.conv2d" in done.stdout and "wrong" in done.stdout
