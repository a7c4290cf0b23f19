"""The C backend: any operator with a tensor expression, as C compiled by the host's compiler.

It is also what the host itself runs on: :meth:`CBackend.compile_functions` puts many functions into one library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.codegen.backend import Backend, Verdict, constraint, judge
from byoc.codegen.c.compiler import find_compiler
from byoc.codegen.c.emit import emit_programs
from byoc.codegen.kernel.lower import DTYPES, lower_function
from byoc.codegen.kernel.program import Program
from byoc.errors import CompileError, CompilerNotFoundError
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.expr import Call, Function
from byoc.relay.transform.fuse_ops import FuseOps
from byoc.relay.traverse import dataflow_children, post_order
from byoc.runtime.dso.module import DsoModule
from byoc.runtime.ndarray import NDArray


def _tensors(call: Call) -> list[TensorType]:
    types = [*(a.checked_type for a in call.args), call.checked_type]
    return [t for ty in types for t in tensor_types(ty)]


@constraint("expression")
def has_expression(call: Call) -> object | None:
    """operators whose elements are defined by a tensor expression"""
    inner = [call]
    if isinstance(call.op, Function):
        inner = [n for n in post_order(call.op.body, dataflow_children) if isinstance(n, Call)]
    for node in inner:
        if not isinstance(node.op, Op):
            return type(node.op).__name__
        if node.op.compute is None:
            return node.op.name
    return None


@constraint("dtype")
def generated_dtype(call: Call) -> object | None:
    """bool, float32, float64, and ints of 8 to 64 bits only"""
    return next((t.dtype for t in _tensors(call) if t.dtype not in DTYPES), None)


@constraint("shape")
def known_shape(call: Call) -> object | None:
    """every dimension a number or a named size"""
    return next((t for t in _tensors(call) if not t.is_symbolic), None)


CONSTRAINTS = (has_expression, generated_dtype, known_shape)


class CBackend(Backend):
    """Generated C. Option ``flags``: more flags for the compiler, a sequence of strings."""

    name = "c"

    def supports(self, call: Call) -> Verdict:
        return judge(call, CONSTRAINTS)

    def unavailable(self) -> str | None:
        try:
            find_compiler()
        except CompilerNotFoundError as error:
            return str(error)
        return None

    def compile(self, function: Function, options: Mapping[str, object]) -> DsoModule:
        symbol = function.attrs.get("global_symbol")
        if not isinstance(symbol, str):
            raise CompileError("a region needs the attribute global_symbol: the name under which it is called")
        return compile_functions({symbol: fuse_body(function)}, options)

    def compile_functions(self, functions: Mapping[str, Function], options: Mapping[str, object]) -> DsoModule:
        """As the function of the same name."""
        return compile_functions(functions, options)


def compile_functions(functions: Mapping[str, Function], options: Mapping[str, object] | None = None) -> DsoModule:
    """Many functions, by their symbols, in one library; a ``Primitive`` function is one group of fused stages.

    The module's ``constant_arrays`` are its constants by the names in its signatures. Raises CompileError for a
    function for which no code can be generated, CompilerNotFoundError.
    """
    programs = [lower_function(function, symbol) for symbol, function in functions.items()]
    compiler = find_compiler()
    source = emit_programs(programs, compiler.machine)
    library = compiler.build(source, _flags(options or {}))
    return DsoModule(library, [p.signature for p in programs], source, constant_arrays(programs))


def constant_arrays(programs: Sequence[Program]) -> dict[str, NDArray]:
    """The constants of *programs* by the names in their signatures."""
    return {
        spec.name: data for p in programs for spec, (_, data) in zip(p.signature.constants, p.constants, strict=True)
    }


def fuse_body(function: Function) -> Function:
    """*function* with its operators grouped into ``Primitive`` functions; its attributes are kept."""
    plain = Function(function.params, function.body, function.ret_type, function.type_params, None, function.span)
    fused = FuseOps(fuse_opt_level=2)(IRModule.from_expr(plain))["main"]
    return fused.with_attr(dict(function.attrs))  # type: ignore[attr-defined]


def _flags(options: Mapping[str, object]) -> tuple[str, ...]:
    flags = options.get("flags", ())
    if isinstance(flags, str) or not all(isinstance(f, str) for f in flags):  # type: ignore[attr-defined]
        raise CompileError(f"option 'flags' of backend c is a list of strings, got {flags!r}")
    return tuple(flags)  # type: ignore[arg-type]
