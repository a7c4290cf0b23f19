"""Every operator with a tensor expression, on each of its samples: the OpenCL kernels give what the numpy kernel gives.

All samples stand in a few programs. Floats may differ by rounding: sums are taken in another order, and a device's
functions round otherwise than numpy's. In images a sample's tensors are intermediate results, each times one: what it
reads and what it fills then are images, where they have one, and the components beyond the last channel are NaN, so
that none may be read as a number.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

import byoc.relay.op
import byoc.runtime.kernels  # noqa: F401 - registers the kernels
from byoc.codegen.kernel.lower import lower_function, unsupported_reason
from byoc.codegen.opencl.backend import OpenCLBackend, compile_functions
from byoc.codegen.opencl.emit import emit_programs
from byoc.codegen.opencl.images import texel_kernel
from byoc.contract.support_table import sample_call, supported_ops
from byoc.ir.expr import RelayExpr as Expr
from byoc.ir.op import OPS, Op, Sample
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis import free_vars
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.runtime.kernels.core.registry import get_kernel
from byoc.runtime.opencl.module import OpenCLModule

pytestmark = pytest.mark.needs_opencl
SAMPLES = {"buffer": 300, "image": 20}  # that stand in one program: in images each has several kernels


@dataclass(frozen=True)
class Case:
    """A sample of an operator as a function to compile."""

    op: Op
    sample: Sample
    function: Function

    def arrays(self) -> list[np.ndarray]:
        return [np.asarray(a) for i in self.sample.arrays() for a in (i if isinstance(i, list) else [i])]

    def expected(self) -> list[np.ndarray]:
        attrs = self.op.attrs_type(**self.sample.attrs).as_dict() if self.op.attrs_type else {}
        with np.errstate(all="ignore"):
            result = get_kernel(self.op.kernel)(*self.sample.arrays(), **attrs)
        return list(result) if isinstance(result, (tuple, list)) else [result]


def _case(op: Op, sample: Sample) -> Case:
    params: list[Var] = []
    args: list[Tuple | Var] = []
    for k, item in enumerate(sample.arrays()):
        arrays = [np.asarray(a) for a in (item if isinstance(item, list) else [item])]
        group = [Var(f"x{k}_{j}", TensorType(a.shape, str(a.dtype))) for j, a in enumerate(arrays)]
        params += group
        args.append(Tuple(group) if isinstance(item, list) else group[0])
    attrs = op.attrs_type(**sample.attrs) if op.attrs_type else None
    return Case(op, sample, Function(params, Call(op, args, attrs)))


@functools.cache
def _cases() -> dict[str, Case]:
    ops = [OPS[n] for n in sorted(OPS) if not n.startswith("test_")]
    cases = {f"{op.name}[{k}]": _case(op, s) for op in ops if op.compute for k, s in enumerate(op.samples)}
    return {name: case for name, case in cases.items() if unsupported_reason(case.function) is None}


def _times_one(value: Expr, ty: TensorType) -> Expr:
    """*value* times one, by a kernel of its own, where an image may hold it."""
    if ty.dtype != "float32" or not 0 < len(ty.shape) <= 4:
        return value
    return Call(OPS["multiply"], [value, Constant(np.float32(1))])


def _between_copies(function: Function) -> Function:
    """*function* with its arguments and its results times one."""
    call = function.body
    assert isinstance(call, Call)
    copies = {p: _times_one(p, p.checked_type) for p in function.params}
    args = [Tuple([copies[v] for v in a.fields]) if isinstance(a, Tuple) else copies[a] for a in call.args]
    made = Call(call.op, args, call.attrs)
    ty = call.checked_type
    if isinstance(ty, TensorType):
        return Function(function.params, _times_one(made, ty))
    fields = [_times_one(TupleGetItem(made, k), t) for k, t in enumerate(tensor_types(ty))]
    return Function(function.params, Tuple(fields))


@functools.cache
def _runs() -> dict[tuple[str, str, str], bool]:
    """Each sample by either schedules and in either memory, and whether that is of the long run.

    By default an operator's first sample runs in buffers by both schedules and in images by those of a GPU, and the
    others by one of the two schedules, in turn.
    """
    runs, seen = {}, Counter[str]()
    for name in sorted(_cases()):
        op = _cases()[name].op.name
        for number, schedules in enumerate(("cpu", "gpu")):
            runs[name, schedules, "buffer"] = seen[op] > 0 and seen[op] % 2 != number
            runs[name, schedules, "image"] = seen[op] > 0 or schedules == "cpu"
        seen[op] += 1
    return runs


@pytest.fixture(scope="module")
def wanted(request: pytest.FixtureRequest) -> frozenset[str]:
    """The cases of the tests that run, so that one operator alone (``-k NAME``) waits for its own code alone."""
    items = [i for i in request.session.items if isinstance(i, pytest.Function) and i.path == request.path]
    return frozenset(i.callspec.params["name"] for i in items if "wanted" in i.fixturenames)


@functools.cache
def _modules(schedules: str, memory: str, long: bool, wanted: frozenset[str]) -> Sequence[OpenCLModule]:
    """The samples of one run; a device builds a program whole, so that those of the other run stand in others."""
    change = _between_copies if memory == "image" else (lambda function: function)
    own = [(k, name) for k, name in enumerate(_cases()) if name in wanted]
    chosen = [(k, name) for k, name in own if _runs()[name, schedules, memory] == long]
    functions = {f"case_{k}": change(_cases()[name].function) for k, name in chosen}
    count = -(-len(functions) // SAMPLES[memory])
    chunks = [dict(list(functions.items())[k::count]) for k in range(count)]
    options = {"schedules": schedules, "mode": f"memory={memory}"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texel_kernel, "PADDING", float("nan"))
        return [compile_functions(chunk, options) for chunk in chunks]


def test_every_operator_that_is_listed_as_supported_is_tested():
    covered = {case.op.name for case in _cases().values()}
    assert [name for name in supported_ops(OpenCLBackend()) if name not in covered] == []


@pytest.mark.parametrize("name", supported_ops(OpenCLBackend()))
def test_what_the_verdict_accepts_is_generated(name):
    """The constraints and the code generator have one predicate: no sample is accepted and then refused."""
    op = OPS[name]
    for sample in op.samples:
        call = sample_call(op, sample)
        if OpenCLBackend().supports(call):
            emit_programs([lower_function(Function(free_vars(call), call), "one")])


def test_the_samples_cover_most_operators_with_a_tensor_expression():
    covered = {case.op.name for case in _cases().values()}
    wanted = [n for n in OPS if OPS[n].compute and OPS[n].samples and not n.startswith("test_")]
    missing = [n for n in wanted if n not in covered]
    assert not missing, f"no sample of these is generated: {missing}"


@pytest.mark.parametrize(
    ("schedules", "long", "least"), [("gpu", False, 0.4), pytest.param("cpu", True, 0.5, marks=pytest.mark.slow)]
)
def test_many_samples_read_or_fill_images(schedules, long, least):
    plans = [plan for module in _modules(schedules, "image", long, frozenset(_cases())) for plan in module.plans]
    assert sum(bool(plan.images) for plan in plans) > least * len(plans)


@pytest.mark.parametrize(
    ("name", "schedules", "memory"),
    [pytest.param(*run, marks=[pytest.mark.slow] if long else []) for run, long in _runs().items()],
)
def test_generated_kernels_equal_the_numpy_kernel(name, schedules, memory, wanted):
    case = _cases()[name]
    symbol = f"case_{list(_cases()).index(name)}"
    modules = _modules(schedules, memory, _runs()[name, schedules, memory], wanted)
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
