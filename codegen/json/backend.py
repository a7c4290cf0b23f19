"""The ``json`` backend: regions as JSON graphs, run by the JSON engine over the numpy kernels.

It is the simplest accelerator there is, and the base that a vendor with a kernel library starts from: subclass
:class:`JsonBackend`, name the kernel table, and say which composites the table has kernels for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from byoc.codegen.json.kernel_attributes import attributes_inside, check_declared
from byoc.codegen.json.serialize import CompositeAttributes, JSONSerializer, no_attributes
from byoc.contract.backend import Backend
from byoc.contract.signature import signature_of
from byoc.contract.verdict import Constraint, Verdict, callee_name, constraint, judge, refuse
from byoc.errors import CompileError
from byoc.ir.op import OPS, Op
from byoc.ir.types import TensorType, TupleType
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.expr import Call, Function
from byoc.relay.op.annotation import is_mark
from byoc.runtime.core.small_types import SMALL
from byoc.runtime.json.module import JsonModule
from byoc.runtime.json.table import TABLES, get_table, reference_attributes
from byoc.runtime.kernels import KERNELS
from byoc.runtime.modules.module import Module


@constraint("kernel")
def has_kernel(call: Call) -> str | None:
    """an operator with a numpy kernel"""
    if isinstance(call.op, Op):
        return None if call.op.kernel in KERNELS else call.op.name
    return f"a call of a {type(call.op).__name__}"


@constraint("annotation")
def no_annotation(call: Call) -> str | None:
    """an operator that computes, not a mark for the compiler"""
    return call.op.name if isinstance(call.op, Op) and is_mark(call.op) else None


@constraint("shape")
def ranked_tensors(call: Call) -> str | None:
    """tensors, and tuples of tensors, whose dimensions are numbers or named sizes"""
    types = [call.checked_type, *(arg.checked_type for arg in call.args)]
    flat = [t for ty in types for t in (ty.fields if isinstance(ty, TupleType) else (ty,))]
    for ty in flat:
        if not (isinstance(ty, TensorType) and ty.is_symbolic):
            return repr(ty)
    return None


class JsonBackend(Backend):
    """Regions as JSON graphs. ``table`` names the kernels that the engine calls.

    A kernel of a composite gets its arguments, then the constants that the pattern matched, in post-order of its body.
    An attribute that a kernel does not declare must mean nothing (``kernel_attributes.py``). Without constraints of its
    own, a backend takes the operators and composites that its table has.
    """

    name = "json"
    table = "numpy"
    options: Sequence[str] | None = ()
    constraints: Sequence[Constraint] = (has_kernel, no_annotation, ranked_tensors)
    small_dtypes: Sequence[str] = tuple(SMALL)

    def __init_subclass__(cls) -> None:
        """numpy's kernels take every element type; a table of a vendor's own takes those that its backend names."""
        if cls.table != JsonBackend.table and "small_dtypes" not in vars(cls):
            cls.small_dtypes = ()

    def supports(self, call: Call) -> Verdict:
        inherited = self.constraints is JsonBackend.constraints and self.table != JsonBackend.table
        if inherited and callee_name(call) not in get_table(self.table):
            return refuse(call, "kernel", f"an operator of the table {self.table}", callee_name(call))
        if inherited and not isinstance(call.op, Op):
            return judge(call, (no_annotation, ranked_tensors))
        return super().supports(call)

    def named_operators(self) -> Iterable[tuple[str, str]]:
        """The kernels of its table, where that is there; names of numpy's kernels may stand for several operators."""
        table = TABLES.get(self.table)
        own = {n: k for n, k in table.own.items() if n not in KERNELS} if table is not None else {}
        shared = {OPS[name].kernel for name in OPS} if own else ()
        return [(n, f"the kernel {k.source} of table {self.table!r}") for n, k in own.items() if n not in shared]

    def named_attributes(self) -> Iterable[tuple[str, str, str]]:
        """Those that the kernels of its table declare and numpy's do not, where one kernel is one operator's."""
        table = TABLES.get(self.table)
        return [
            (name, attribute, f"the kernel {name!r} of table {self.table!r} ({kernel.source})")
            for name, kernel in (table.own.items() if table is not None else ())
            if name in OPS
            for attribute in kernel.attributes
            if attribute not in reference_attributes(OPS[name].kernel)
        ]

    def composite_attributes(self, composite: Function) -> Mapping[str, object]:
        """What the engine gets of a composite, beside its name: those attributes of the operators in it that its
        kernel declares. Override it to pass others: the kernel must declare each of them, and is no longer asked about
        the operators' own. Raises CompileError where two operators differ in one.
        """
        return attributes_inside(composite, get_table(self.table))

    def compile(self, function: Function, options: Mapping[str, object]) -> Module:
        """A JsonModule with the region's graph. Raises CompileError for a function without ``global_symbol``."""
        symbol = function.attrs.get("global_symbol")
        if not symbol:
            raise CompileError("a region needs the attribute global_symbol: run PartitionGraph")
        unchecked = {entry.name: entry.pattern for entry in self.patterns() if entry.asked is None}
        check_declared(function, get_table(self.table), unchecked, self.composite_attributes)
        return compile_functions({str(symbol): function}, self.table, self.composite_attributes)


def compile_functions(
    functions: Mapping[str, Function],
    table: str = "numpy",
    composite_attributes: CompositeAttributes = no_attributes,
) -> JsonModule:
    """One JsonModule with all *functions* by symbol; its constants are in ``constant_arrays``."""
    graphs, signatures, constants = {}, [], {}
    for symbol, function in functions.items():
        kernels = get_table(table)
        serializer = JSONSerializer(
            symbol, composite_attributes, kernels.__contains__, composite_constants=True, arity=kernels.arity
        )
        function = infer_function(function)
        graphs[symbol] = serializer.serialize(function)
        signatures.append(signature_of(symbol, function, serializer.constants))
        constants.update(serializer.constants)
    module = JsonModule(graphs, signatures, table)
    module.constant_arrays = constants
    return module
