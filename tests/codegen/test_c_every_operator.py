"""Every operator with an expression or a routine, on each of its samples: the C code gives what the numpy kernel gives.

All samples are compiled into a few libraries with every warning an error. Floats may differ by rounding: sums are
taken in another order, and C's functions round otherwise than numpy's.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import byoc.relay.op
import byoc.runtime.kernels  # noqa: F401 - registers the kernels
from byoc.codegen.c.backend import CBackend, no_code_reason
from byoc.codegen.c.routines.registry import find_routine
from byoc.contract.support_table import sample_call, supported_ops
from byoc.ir.op import OPS, Op, Sample
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis import free_vars
from byoc.relay.expr import Call, Function, Tuple, Var
from byoc.runtime.dso.module import DsoModule
from byoc.runtime.kernels.core.registry import get_kernel

pytestmark = pytest.mark.needs_cc
WARNINGS = ("-Wall", "-Wextra", "-Wdiscarded-qualifiers", "-Wcast-qual", "-Werror", "-O1")
LIBRARIES = 2


@dataclass(frozen=True)
class Case:
    """A sample of an operator as a function to compile."""

    op: Op
    sample: Sample
    function: Function

    def arrays(self) -> list[np.ndarray]:
        return [a for item in self.sample.arrays() for a in (item if isinstance(item, list) else [item])]

    def expected(self) -> list[np.ndarray]:
        attrs = self.attrs().as_dict() if self.op.attrs_type else {}
        with np.errstate(all="ignore"):
            result = get_kernel(self.op.kernel)(*self.sample.arrays(), **attrs)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    def attrs(self):
        return self.op.attrs_type(**self.sample.attrs) if self.op.attrs_type else None


def _parameter(name: str, array: np.ndarray) -> Var:
    return Var(name, TensorType(array.shape, str(array.dtype)))


def _case(op: Op, sample: Sample) -> Case:
    params: list[Var] = []
    args = []
    for k, item in enumerate(sample.arrays()):
        arrays = item if isinstance(item, list) else [item]
        group = [_parameter(f"x{k}_{j}", np.asarray(a)) for j, a in enumerate(arrays)]
        params += group
        args.append(Tuple(group) if isinstance(item, list) else group[0])
    attrs = op.attrs_type(**sample.attrs) if op.attrs_type else None
    return Case(op, sample, Function(params, Call(op, args, attrs)))


@functools.cache
def _cases() -> dict[str, Case]:
    ops = [OPS[name] for name in sorted(OPS) if not name.startswith("test_")]
    written = [op for op in ops if op.compute or find_routine(op)]
    cases = {f"{op.name}[{k}]": _case(op, s) for op in written for k, s in enumerate(op.samples)}
    return {name: case for name, case in cases.items() if no_code_reason(case.function) is None}


@pytest.fixture(scope="module")
def modules(request: pytest.FixtureRequest) -> Sequence[DsoModule]:
    """The cases of the tests that run, so that one operator alone (``-k NAME``) waits for its own code alone."""
    items = [i for i in request.session.items if isinstance(i, pytest.Function) and i.path == request.path]
    wanted = {i.callspec.params["name"] for i in items if "modules" in i.fixturenames}
    functions = {f"case_{k}": case.function for k, (name, case) in enumerate(_cases().items()) if name in wanted}
    chunks = [dict(list(functions.items())[k::LIBRARIES]) for k in range(LIBRARIES)]
    return [CBackend().compile_functions(chunk, {"flags": WARNINGS}) for chunk in chunks if chunk]


def test_every_operator_that_is_listed_as_supported_is_tested():
    covered = {case.op.name for case in _cases().values()}
    assert [name for name in supported_ops(CBackend()) if name not in covered] == []


@pytest.mark.parametrize("name", supported_ops(CBackend()))
def test_what_the_verdict_accepts_is_generated(name):
    """The constraints and the code generator have one predicate: no sample is accepted and then refused."""
    op = OPS[name]
    for sample in op.samples:
        call = sample_call(op, sample)
        if CBackend().supports(call):
            assert no_code_reason(Function(free_vars(call), call)) is None


def test_nearly_every_operator_with_an_expression_or_a_routine_has_a_sample_that_is_generated():
    covered = {case.op.name for case in _cases().values()}
    written = [n for n in OPS if OPS[n].compute or find_routine(OPS[n])]
    missing = [n for n in written if OPS[n].samples and not n.startswith("test_") and n not in covered]
    assert not missing, f"no sample of these is generated: {missing}"


@pytest.mark.parametrize("name", sorted(_cases()))
def test_generated_code_equals_the_numpy_kernel(name, modules):
    case = _cases()[name]
    symbol = f"case_{list(_cases()).index(name)}"
    module = next(m for m in modules if symbol in m.symbols)
    outputs = [np.empty(t.shape, t.dtype) for t in tensor_types(case.function.body.checked_type)]
    module[symbol](*case.arrays(), *outputs)
    for got, want in zip(outputs, case.expected(), strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        if got.dtype.kind == "f":
            tolerance = 2e-5 if got.dtype == np.float32 else 1e-9
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(got, want)
