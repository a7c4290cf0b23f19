"""The ``onednn`` backend: what it takes, its patterns, and a region as a program of oneDNN's primitives.

Constraints say what the primitives have as ONNX means it; last the library is asked, where it is here, whether it has
fast code for the call on this processor. A region is written as its operators, in the order in which they stand; what
runs behind a product in one primitive is found when the program is built (``fusing.py``).

Integers are not taken. Without VNNI (AVX2 alone) oneDNN adds products of bytes in pairs of 16 bits that saturate: of
weights of 8 bits three quarters of a product's elements are wrong, those of int8 data also with weights of 7 bits where
they are convolved.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

from byoc.contract import (
    NAN_LOST,
    NAN_SPREAD,
    Backend,
    PatternEntry,
    RegionNode,
    constraint,
    judge,
    makes,
    register_backend,
)
from byoc.contrib.call_alone import call_alone
from byoc.contrib.onednn.activations import ACTIVATIONS, inlined
from byoc.contrib.onednn.algorithms import ELTWISE
from byoc.contrib.onednn.building import Constants, is_reference
from byoc.contrib.onednn.constraints import TAKEN
from byoc.contrib.onednn.execution import PrimitivePlan
from byoc.contrib.onednn.library import library, unavailable
from byoc.contrib.onednn.module import OnednnModule
from byoc.contrib.onednn.table import BUILDERS
from byoc.contrib.program_generator import ProgramGenerator
from byoc.contrib.region_program import Program
from byoc.errors import DeviceError, in_one_line
from byoc.ir.op import Op
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.dataflow_pattern import DFPattern, is_op, wildcard
from byoc.relay.expr import Call, Function
from byoc.relay.traverse import dataflow_children, post_order
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import Signature


class OnednnGenerator(ProgramGenerator):
    """Writes the program of one region."""

    def __init__(self, function: Function, options: Mapping[str, object] | None = None):
        super().__init__(inlined(infer_function(function)), options)

    @makes(*BUILDERS)
    def call(self, node: RegionNode, *arguments: int) -> list[int] | int:
        """One operator; of an activation, the constants by which it is written are not needed."""
        read = arguments if isinstance(node.call.op, Op) else arguments[: len(node.call.args)]
        return self.written(node, read, node.attrs)

    def compile(self, results: Sequence[int]) -> OnednnModule:
        program, signature = self.program(results)
        return OnednnModule({self.symbol: program}, [signature])


@constraint("kernel", machine=True)
def fast_code(call: Call) -> str | None:
    """what oneDNN has code for on this processor, beside its reference"""
    if unavailable() is not None or not judge(call, TAKEN):
        return None  # one may plan for another machine; and what is refused cannot be written
    module = OnednnGenerator(call_alone(call)).generate()
    assert isinstance(module, OnednnModule)
    (signature,), (program,) = module.signatures.values(), module.programs.values()
    if signature.size_names:
        return None  # the library says it when the sizes are known
    return _problem(repr(program), signature, program)


def _problem(key: str, signature: Signature, program: Program) -> str | None:
    if (key, signature) not in KNOWN:
        KNOWN[key, signature] = _asked(signature, program)
    return KNOWN[key, signature]


KNOWN: dict[tuple[str, Signature], str | None] = {}


def _asked(signature: Signature, program: Program) -> str | None:
    """Why the library has no fast code for *program*, whose constants are taken for zeros."""
    arrays = [np.zeros(s.concrete_shape({}), numpy_dtype(s.dtype)) for s in signature.constants]
    try:
        plan = PrimitivePlan(library(), program, signature, Constants(arrays), {})
    except DeviceError as error:
        return in_one_line(error)
    made = [action.primitive for action in plan.actions if action.primitive is not None]
    return next((f"{p.name} alone" for p in made if is_reference(p)), None)


def problem_of(function: Function) -> str | None:
    """Why oneDNN does not compute all of a region, in a clause; None where it does, on this machine."""
    missing = unavailable()
    if missing is not None:
        return missing
    calls = (node for node in post_order(inlined(function).body, dataflow_children) if isinstance(node, Call))
    return next(
        (str(verdict) for verdict in (judge(call, OnednnBackend.constraints) for call in calls) if not verdict), None
    )


@register_backend
class OnednnBackend(Backend):
    """Regions as programs of oneDNN's primitives."""

    name = "onednn"
    options = ()
    needs_sizes = True
    deviations = (NAN_LOST, NAN_SPREAD)  # its relu bounds as the processor does; its resize multiplies by zeros
    constraints = (*TAKEN, fast_code)

    def unavailable(self) -> str | None:
        return unavailable()

    def device_kind(self) -> str | None:
        return "cpu"

    def patterns(self) -> Sequence[PatternEntry]:
        """Products with a bias, a sum and a function behind them; functions that are written as several operators."""
        products: dict[str, DFPattern] = {
            "conv": _any_op(*(f"nn.conv{n}d" for n in (1, 2, 3))),
            "conv_transpose": _any_op(*(f"nn.conv{n}d_transpose" for n in (1, 2, 3))),
            "dense": _any_op("nn.dense"),
        }
        rows = []
        for name, product in products.items():
            biased = is_op("nn.bias_add")(product, wildcard()) | is_op("add")(product, wildcard())
            added = is_op("add")(biased, wildcard()) | is_op("add")(wildcard(), biased)
            for parts, body in (("bias_sum", added), ("bias", biased), ("", product)):
                prefix = f"onednn.{name}{'_' * bool(parts)}{parts}"
                rows.append(PatternEntry(f"{prefix}_ending", _ended(body)))
                rows += [PatternEntry(prefix, body)] if parts else []
        return [*rows, *(PatternEntry(name, pattern(wildcard())) for name, (pattern, _) in ACTIVATIONS.items())]

    def compile(self, function: Function, options: Mapping[str, object]) -> OnednnModule:
        """The program of *function*."""
        module = OnednnGenerator(function, options).generate()
        assert isinstance(module, OnednnModule)
        return module


def _any_op(*names: str) -> DFPattern:
    """One of these products, of any two tensors."""
    patterns: list[DFPattern] = [is_op(name)(wildcard(), wildcard()) for name in names]
    return functools.reduce(lambda a, b: a | b, patterns)


def _ended(body: DFPattern) -> DFPattern:
    """*body* and a function of it."""
    single = [is_op(name)(body) for name in ELTWISE if name not in ACTIVATIONS]
    written = [pattern(body) for pattern, _ in ACTIVATIONS.values()]
    return functools.reduce(lambda a, b: a | b, [*written, *single])
