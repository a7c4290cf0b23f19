"""Every operator that the json backend lists, on each sample that it takes: its module, saved and loaded, computes what
the tensor expression says, or where there is none what the numpy kernel gives when it is called directly.
"""

from __future__ import annotations

import numpy as np
import pytest

from byoc import te
from byoc.codegen.json.backend import JsonBackend, compile_functions
from byoc.contract.support_table import sample_call, supported_ops
from byoc.ir.op import OPS
from byoc.ir.types import tensor_types
from byoc.relay.analysis import free_vars
from byoc.relay.expr import Function
from byoc.relay.op.core.builder import define, is_definable, placeholders
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.json.module import JsonModule
from byoc.runtime.kernels import get_kernel


def expected(op, sample, call):
    """The outputs by another way than the JSON graph."""
    types = [a.checked_type for a in call.args]
    if is_definable(op, call.attrs, types, call.checked_type):
        inputs = placeholders(types)
        arrays = [np.asarray(a) for i in sample.arrays() for a in (i if isinstance(i, list) else [i])]
        values = dict(zip(inputs, arrays, strict=True))
        return [te.evaluate(t, values) for t in define(op, call.attrs, inputs, call.checked_type)]
    with np.errstate(all="ignore"):
        result = get_kernel(op.kernel)(*sample.arrays(), **(call.attrs.as_dict() if call.attrs else {}))
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("name", supported_ops(JsonBackend()))
def test_a_module_computes_what_the_operator_means(name):
    op, tested = OPS[name], 0
    for sample in op.samples:
        call = sample_call(op, sample)
        if not JsonBackend().supports(call):
            continue
        function = Function(free_vars(call), call)
        module = JsonModule.load(dict(compile_functions({"f": function}).save()))
        outputs = [np.empty(t.shape, numpy_dtype(t.dtype)) for t in tensor_types(call.checked_type)]
        arrays = [np.array(a) for i in sample.arrays() for a in (i if isinstance(i, list) else [i])]
        with np.errstate(all="ignore"):
            module["f"](*arrays, *outputs)
        for got, want in zip(outputs, expected(op, sample, call), strict=True):
            if got.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True)
            else:
                np.testing.assert_array_equal(got, want)
        tested += 1
    assert tested
