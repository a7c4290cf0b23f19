"""Every operator is complete: a description, a numpy kernel, samples; and its three meanings agree on each sample."""

import numpy as np
import pytest

import byoc.relay.op  # noqa: F401 - registers the operators
from byoc import te
from byoc.ir.op import OPS, Op, Sample
from byoc.ir.types import Any, TensorType, TupleType, tensor_types
from byoc.relay.op.core.builder import define, is_definable, placeholders
from byoc.runtime.core.ndarray import dtype_name
from byoc.runtime.json.attributes import attribute_key, decode_attributes, encode_attribute
from byoc.runtime.kernels import KERNELS, get_kernel

# memory computes nothing, and neither storage nor a sequence is a tensor
MEMORY = ("memory.", "vm.shape_func", "vm.invoke_tvm_op", "sequence.")
COMPLETE = [
    op
    for op in map(OPS.__getitem__, OPS)
    if op.rel is not None and op.rel.__module__.startswith("byoc.") and not op.name.startswith(MEMORY)
]
CASES = [pytest.param(op, s, id=f"{op.name}-{k}") for op in COMPLETE for k, s in enumerate(op.samples)]


def type_of(value: object):
    if isinstance(value, list):
        return TupleType([type_of(v) for v in value])
    return TensorType(value.shape, dtype_name(value.dtype))


def flat(values: list) -> list[np.ndarray]:
    return [a for v in values for a in (v if isinstance(v, list) else [v])]


def attrs_of(op: Op, sample: Sample):
    return op.attrs_type(**sample.attrs) if op.attrs_type else None


def run_kernel(op: Op, sample: Sample):
    arrays = sample.arrays()
    attrs = attrs_of(op, sample)
    with np.errstate(all="ignore"):
        result = get_kernel(op.kernel)(*arrays, **(attrs.as_dict() if attrs else {}))
    outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    types = [type_of(a) for a in arrays]
    return arrays, types, attrs, outputs


def assert_equal_numbers(got: np.ndarray, want: np.ndarray) -> None:
    if want.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("op", COMPLETE, ids=lambda op: op.name)
def test_every_operator_has_a_description_a_kernel_and_a_sample(op: Op) -> None:
    assert op.description.strip()
    assert op.kernel in KERNELS
    assert op.samples


@pytest.mark.parametrize("op, sample", CASES)
def test_the_type_relation_says_what_the_kernel_gives(op: Op, sample: Sample) -> None:
    _, types, attrs, outputs = run_kernel(op, sample)
    out_type = op.rel(types, attrs)
    expected = tensor_types(out_type)
    assert len(outputs) == len(expected)
    for array, ty in zip(outputs, expected, strict=True):
        assert dtype_name(array.dtype) == ty.dtype
        assert array.ndim == ty.ndim
        assert all(isinstance(d, Any) or d == n for d, n in zip(ty.shape, array.shape, strict=True)), (array.shape, ty)
    operations = op.cost(attrs, types, out_type).operations
    assert isinstance(operations, int) and operations >= 0


@pytest.mark.parametrize("op, sample", [c for c in CASES if c.values[0].compute is not None])
def test_the_tensor_expression_computes_what_the_kernel_computes(op: Op, sample: Sample) -> None:
    arrays, types, attrs, outputs = run_kernel(op, sample)
    out_type = op.rel(types, attrs)
    if not all(t.is_symbolic for t in tensor_types(out_type)):
        pytest.skip("nothing is known of the shape")
    assert is_definable(op, attrs, types, out_type)
    inputs = placeholders(types)
    tensors = define(op, attrs, inputs, out_type)
    values = dict(zip(inputs, flat(arrays), strict=True))
    for tensor, want in zip(tensors, outputs, strict=True):
        assert_equal_numbers(te.evaluate(tensor, values), want)


@pytest.mark.parametrize("op, sample", [c for c in CASES if c.values[0].attrs_type is not None])
def test_the_kernel_reads_its_attributes_back_from_json_text(op: Op, sample: Sample) -> None:
    arrays, _, attrs, outputs = run_kernel(op, sample)
    kernel = get_kernel(op.kernel)
    texts = {attribute_key(name): encode_attribute(value) for name, value in attrs.items()}
    again = kernel(*arrays, **decode_attributes(texts, kernel.attributes))
    for got, want in zip(list(again) if isinstance(again, (tuple, list)) else [again], outputs, strict=True):
        np.testing.assert_array_equal(got, want)
