"""Every operator on values of unknown size, some of which only the data determine: the machine and the interpreter
agree.

Each sample of each operator is run three times: with all dimensions known, which says what is right; with unknown ones;
and with operands that a reshape makes from flat data and a shape that is an input, so that sizes are data.
"""

from __future__ import annotations

import numpy as np
import pytest

import byoc.relay.op  # noqa: F401 - registers the operators
from byoc import relay
from byoc.driver.vm import compile_module
from byoc.errors import TypeInferenceError
from byoc.ir.op import OPS
from byoc.ir.types import Any, TensorType, TupleType
from byoc.relay.expr import Call, Function, Tuple, Var
from byoc.relay.interpreter import evaluate
from byoc.runtime.core.container import ADT
from byoc.runtime.core.device import cpu
from byoc.runtime.core.ndarray import NDArray, dtype_name
from byoc.runtime.kernels.core.registry import KERNELS
from byoc.runtime.vm import VirtualMachine

pytestmark = pytest.mark.needs_cc
OPERATORS = [
    op
    for op in map(OPS.__getitem__, OPS)
    if op.rel is not None
    and op.rel.__module__.startswith("byoc.")
    and op.samples
    and op.kernel in KERNELS
    and not op.get_attr("TOpIsStateful")
]


def type_of(value, is_unknown):
    if isinstance(value, list):
        return TupleType([type_of(v, is_unknown) for v in value])
    return TensorType([Any() if is_unknown(k) else n for k, n in enumerate(value.shape)], dtype_name(value.dtype))


def flat(value):
    if isinstance(value, (list, tuple, ADT)):
        return [array for v in value for array in flat(v)]
    return [value.numpy() if isinstance(value, NDArray) else np.asarray(value)]


def agree(found, wanted):
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if want.dtype.kind in "fc" or want.dtype.name == "bfloat16":
            np.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(got, want)


def call_of(op, sample, args):
    return Call(op, args, op.attrs_type(**sample.attrs) if op.attrs_type else None)


def params_of(arrays, is_unknown):
    return [Var(f"p{k}", type_of(array, is_unknown)) for k, array in enumerate(arrays)]


def typed(params, body):
    """The function as a module; None where Relay's type relation wants a size that is not known."""
    try:
        return relay.transform.InferType()(relay.IRModule.from_expr(Function(params, body)))
    except TypeInferenceError:
        return None


def run_both(mod, arrays, wanted):
    agree(flat(evaluate(mod["main"], arrays)), wanted)
    agree(flat(VirtualMachine(compile_module(mod), cpu()).run(*arrays)), wanted)


def right(op, sample):
    arrays = sample.arrays()
    params = params_of(arrays, lambda k: False)
    return arrays, flat(evaluate(Function(params, call_of(op, sample, params)), arrays))


def run_unknown(op, samples, is_unknown):
    count = 0
    for sample in samples:
        arrays, wanted = right(op, sample)
        params = params_of(arrays, is_unknown)
        mod = typed(params, call_of(op, sample, params))
        if mod is not None:
            run_both(mod, arrays, wanted)
            count += 1
    return count


def test_operators_run_with_an_unknown_first_dimension():
    """One sample of each; nearly all operators type that. The rest needs to know, as a weight's number of words."""
    refused = [op.name for op in OPERATORS if not run_unknown(op, op.samples[:1], lambda k: k == 0)]
    assert len(refused) < len(OPERATORS) // 9, refused
    assert not [name for name in refused if name in ("nn.conv2d", "nn.conv2d_transpose", "nn.dense", "concatenate")]


def test_a_kernel_of_unknown_size_may_be_given_when_it_runs():
    x, w = relay.var("x", shape=(1, Any(), 8, 8)), relay.var("w", shape=(Any(), Any(), Any(), Any()))
    made = relay.nn.conv2d(x, w, channels=4, kernel_size=(3, 3), padding=(1, 1))
    mod = typed([x, w], made)
    assert mod["main"].ret_type == TensorType((1, 4, 8, 8))
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(1, 3, 8, 8)).astype("float32"), rng.normal(size=(4, 3, 3, 3)).astype("float32")]
    known = [relay.var(n, shape=a.shape) for n, a in zip("xw", arrays, strict=True)]
    wanted = flat(evaluate(Function(known, relay.nn.conv2d(*known, padding=(1, 1))), arrays))
    run_both(mod, arrays, wanted)
    open_ = typed([x, w], relay.nn.conv2d(x, w, padding=(1, 1)))
    assert not any(isinstance(d, int) for d in open_["main"].ret_type.shape[1:])
    run_both(open_, arrays, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_every_sample_runs_with_unknown_dimensions(op):
    for is_unknown in (lambda k: True, lambda k: k == 0, lambda k: k > 0):
        run_unknown(op, op.samples, is_unknown)


def made_by_data(value, name, params, arrays):
    """An expression of *value*, whose shape is an input; parameters and their arrays are added."""
    if isinstance(value, list):
        return Tuple([made_by_data(v, f"{name}_{k}", params, arrays) for k, v in enumerate(value)])
    data, shape = (
        Var(f"{name}_data", TensorType([Any()], dtype_name(value.dtype))),
        Var(f"{name}_shape", TensorType([value.ndim], "int64")),
    )
    params += [data, shape]
    arrays += [value.reshape(-1), np.array(value.shape, "int64")]
    return relay.reshape(data, shape)


def run_on_data(op, samples):
    for sample in samples:
        arrays, wanted = right(op, sample)
        params, given = [], []
        args = [
            made_by_data(a, f"p{k}", params, given) if isinstance(a, list) or a.ndim else None
            for k, a in enumerate(arrays)
        ]
        for k, (arg, array) in enumerate(zip(args, arrays, strict=True)):
            if arg is None:  # a scalar has no sizes
                args[k] = Var(f"p{k}", TensorType((), dtype_name(array.dtype)))
                params.append(args[k])
                given.append(array)
        mod = typed(params, call_of(op, sample, args))
        if mod is not None:
            run_both(mod, given, wanted)


EVERY = 7  # of the operators by default, which ones is spread over all families


def test_some_operators_run_on_sizes_that_are_data():
    for op in OPERATORS[::EVERY]:
        run_on_data(op, op.samples[:1])


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_every_operator_runs_on_sizes_that_are_data(op):
    run_on_data(op, op.samples)
