"""From a Relay function to a Program: groups of stages over placeholders and constants.

Requires a function of operators, of inline functions (``Primitive``, ``Composite``), tuples, projections and lets;
:func:`unsupported_reason` says why another cannot be lowered. Each call of a function is one group, and so is each
call of an operator outside of one. Sizes are named: the same name is the same number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from byoc.codegen.kernel.inline import fuse_stages
from byoc.codegen.kernel.program import Group, Program, group_sizes
from byoc.errors import InternalError, UnsupportedError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.span import AnySpan, span_names
from byoc.ir.types import STORED, TensorType, Type, tensor_types
from byoc.relay.analysis.operator_calls import located
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Let, Tuple, TupleGetItem, Var
from byoc.relay.narrowing import operator_of, tuple_type
from byoc.relay.op.core.builder import define, takes_dtypes
from byoc.relay.traverse import dataflow_children, post_order
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.te import Tensor, compute, const, placeholder
from byoc.te.tensor import shape_of
from byoc.te.walk import loaded_tensors

DTYPES = frozenset(
    ["bool", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
LOWERED = DTYPES | frozenset(STORED)  # numbers, and what lies in memory as bits
Tensors = tuple[Tensor, ...]
Scope = dict[RelayExpr, Tensors]
EvaluateCall = Callable[[Call, Sequence[Tensor]], Sequence[Tensor]]


def unsupported_reason(func: Function) -> str | None:
    """Why no code can be generated for *func*: one sentence, or None when :func:`lower_function` takes it.

    Raises TypeInferenceError when its types do not fit.
    """
    infer_expr(func)
    stack = [func]
    while stack:
        current = stack.pop()
        for node in (*current.params, *post_order(current.body, dataflow_children)):
            reason = _node_reason(node)
            if reason is not None:
                return reason
            if isinstance(node, Function):
                stack.append(node)
    return None


def _node_reason(node: RelayExpr) -> str | None:
    if isinstance(node, Op | Function):
        return None
    if type(node) not in _RULES:
        return f"a {type(node).__name__} is not generated as code{located(node)}"
    if isinstance(node, Call):
        if isinstance(node.op, Op) and not has_code(node):
            return f"{node.op.name} has no tensor expression{_of_dtypes(node)}{located(node)}"
        if not isinstance(node.op, Op | Function):
            return f"a call of a {type(node.op).__name__} is not generated as code{located(node)}"
    return type_reason(node.checked_type, located(node))


def opaque_call(func: Function) -> Call | None:
    """The call that is all of *func*, on inputs and constants, where its operator has no tensor expression at all."""
    call = func.body
    if not isinstance(call, Call) or not isinstance(call.op, Op) or call.op.compute is not None:
        return None
    return call if all(isinstance(arg, Var | Constant) for arg in call.args) else None


def has_code(call: Call) -> bool:
    """True when the operator of *call* has a tensor expression for the dtypes of its inputs."""
    op = call.op
    assert isinstance(op, Op)
    return op.compute is not None and takes_dtypes(op, call.attrs, [arg.checked_type for arg in call.args])


def _of_dtypes(call: Call) -> str:
    if isinstance(call.op, Op) and call.op.compute is None:
        return ""
    return f" of {' and '.join(dict.fromkeys(t.dtype for a in call.args for t in tensor_types(a.checked_type)))}"


def type_reason(ty: Type, where: str = "") -> str | None:
    """Why no code can be generated for a value of type *ty*, or None."""
    for tensor in tensor_types(ty):
        if tensor.dtype not in LOWERED:
            return f"no code is generated for dtype {tensor.dtype}{where}"
        if not tensor.is_symbolic:
            return f"{tensor!r} has a dimension that is neither a number nor a named size{where}"
    return None


def lower_function(func: Function, symbol: str) -> Program:
    """*func* as the Program *symbol*: its parameters are the inputs (tuples flattened), its result the outputs.

    Raises UnsupportedError naming the node when no code can be generated for it.
    """
    reason = unsupported_reason(func)
    if reason is not None:
        raise UnsupportedError(f"{symbol}: {reason}")
    return _Lowering(func, symbol).run()


@dataclass
class _Trace:
    """The operators and spans that one group computes."""

    names: list[str] = field(default_factory=list)
    spans: list[AnySpan | None] = field(default_factory=list)


class _Lowering:
    def __init__(self, func: Function, symbol: str):
        self.func, self.symbol = func, symbol
        self.groups: list[Group] = []
        self.constants: dict[Constant, Tensor] = {}
        self.ready: set[Tensor] = set()
        self.names: set[str] = set()
        self.trace = _Trace()

    def run(self) -> Program:
        scope: Scope = {p: self._placeholders(p) for p in self.func.params}
        inputs = tuple(t for p in self.func.params for t in scope[p])
        self.ready.update(inputs)
        whole = self.func.attrs.get("Primitive") and not self.func.attrs.get("Compiler")
        outputs = self._distinct(self._fused(scope) if whole else self._evaluate(self.func.body, scope, self._group))
        constants = tuple((t, c.data) for c, t in self._used_constants())
        signature = self._with_temporary_sizes(self._signature(inputs, constants, outputs))
        return Program(self.symbol, signature, inputs, constants, outputs, tuple(self.groups))

    def _placeholders(self, param: Var) -> Tensors:
        types = tensor_types(param.checked_type)
        names = [param.name_hint] if len(types) == 1 else [f"{param.name_hint}_{k}" for k in range(len(types))]
        return tuple(placeholder(shape_of(t), t.dtype, n) for t, n in zip(types, names, strict=True))

    def _evaluate(self, body: RelayExpr, scope: Scope, evaluate_call: EvaluateCall) -> Tensors:
        """The tensors of *body*; calls are evaluated by *evaluate_call*."""
        lets: dict[RelayExpr, RelayExpr] = {}

        def value(expr: RelayExpr) -> Tensors:
            while expr in lets:
                expr = lets[expr]
            return scope[expr]

        nodes = list(post_order(body, dataflow_children))
        lets.update((n.variable, n.value) for n in nodes if isinstance(n, Let))
        for node in nodes:
            if isinstance(node, Call):
                scope[node] = tuple(evaluate_call(node, [t for a in node.args for t in value(a)]))
            elif not isinstance(node, Op | Function) and node not in scope and node not in lets:
                scope[node] = _RULES[type(node)](self, node, value)
        return value(body)

    def constant(self, node: Constant) -> Tensors:
        """A number becomes part of the expressions, a tensor a placeholder."""
        if node not in self.constants:
            data, shape = node.data, tuple(node.data.shape)
            if data.numpy().size == 1:
                number = const(data.numpy().reshape(()).item(), data.dtype)
                self.constants[node] = compute(shape, lambda *_: number, name="number")
            else:
                self.constants[node] = placeholder(shape, data.dtype, f"const_{len(self.constants)}", data.numpy())
                self.ready.add(self.constants[node])
        return (self.constants[node],)

    def _fused(self, scope: Scope) -> Tensors:
        """The whole function as one group."""
        self.trace = _Trace(spans=[self.func.span])
        return self._close(self._evaluate(self.func.body, scope, self._inner))

    def _group(self, call: Call, args: Sequence[Tensor]) -> Tensors:
        self.trace = _Trace()
        return self._close(self._inner(call, args))

    def _close(self, raw: Tensors) -> Tensors:
        """End the group that computes *raw*: its stages, fused, and what stands for *raw* now."""
        stages, outputs = fuse_stages(raw, self.ready)
        if stages:
            self._append(_group_name(self.trace.names), self.trace.spans, stages, tuple(self.trace.names))
        return outputs

    def _append(
        self, name: str, spans: Iterable[AnySpan | None], stages: Tensors, operators: tuple[str, ...] = ()
    ) -> None:
        origin = tuple(dict.fromkeys(n for s in spans for n in span_names(s)))
        self.groups.append(Group(_unique(name, self.names), origin, stages, name, operators=operators))
        self.ready.update(stages)

    def _inner(self, call: Call, args: Sequence[Tensor]) -> Tensors:
        self.trace.spans.append(call.span)
        if isinstance(call.op, Function):
            return self._evaluate(call.op.body, _bind(call.op, args), self._inner)
        op = operator_of(call)
        self.trace.names.append(op.name)
        return tuple(define(op, call.attrs, args, call.checked_type))

    def _distinct(self, outputs: Tensors) -> Tensors:
        """Each output a stage of its own: inputs, constants and repeated stages are copied."""
        owned = {s for g in self.groups for s in g.stages}
        result: list[Tensor] = []
        for tensor in outputs:
            if tensor not in owned or tensor in result:
                number = tensor.body is not None and tensor not in self.ready
                tensor = tensor if number and tensor not in result else _copy(tensor)
                self._append("copy", (), (tensor,))
            result.append(tensor)
        return tuple(result)

    def _used_constants(self) -> list[tuple[Constant, Tensor]]:
        """The constants that have memory of their own; a number that stayed a stage is filled by its group."""
        from_stages = {t for g in self.groups for s in g.stages for t in _loads(s)}
        return [(c, t) for c, t in self.constants.items() if t in from_stages and t.body is None]

    def _signature(self, inputs: Tensors, constants: Sequence[tuple[Tensor, NDArray]], outputs: Tensors) -> Signature:
        in_types = [t for p in self.func.params for t in tensor_types(p.checked_type)]
        out_types = tensor_types(self.func.body.checked_type)
        return Signature(
            self.symbol,
            tuple(spec_of(t.name, ty) for t, ty in zip(inputs, in_types, strict=True)),
            tuple(spec_of(f"output_{k}", ty) for k, ty in zip(range(len(outputs)), out_types, strict=True)),
            tuple(
                TensorSpec(f"{self.symbol}_const_{k}", data.shape, data.dtype) for k, (_, data) in enumerate(constants)
            ),
            tuple(dict.fromkeys(check for group in self.groups for check in group.checks)),
        )

    def _with_temporary_sizes(self, signature: Signature) -> Signature:
        """*signature* with the sizes that stand in the stages alone."""
        used = dict.fromkeys(name for group in self.groups for name in group_sizes(group))
        return replace(signature, temporary_sizes=tuple(n for n in used if n not in signature.size_names))


def _loads(stage: Tensor) -> list[Tensor]:
    return loaded_tensors(stage.element)


def _bind(func: Function, args: Sequence[Tensor]) -> Scope:
    """The parameters of an inline function over its flattened arguments."""
    scope: Scope = {}
    position = 0
    for param in func.params:
        count = len(tensor_types(param.checked_type))
        scope[param] = tuple(args[position : position + count])
        position += count
    return scope


def _item(lowering: _Lowering, node: TupleGetItem, value: Callable[[RelayExpr], Tensors]) -> Tensors:
    counts = [len(tensor_types(f)) for f in tuple_type(node.tuple_value).fields]
    start = sum(counts[: node.index])
    return value(node.tuple_value)[start : start + counts[node.index]]


def _unbound(lowering: _Lowering, node: Var, value: Callable[[RelayExpr], Tensors]) -> Tensors:
    raise InternalError(f"{lowering.symbol}: variable %{node.name_hint} is free in the function to lower")


_RULES: dict[type, Callable[..., Tensors]] = {
    Var: _unbound,
    Constant: lambda lowering, node, value: lowering.constant(node),
    Tuple: lambda lowering, node, value: tuple(t for f in node.fields for t in value(f)),
    TupleGetItem: _item,
    Let: lambda lowering, node, value: value(node.body),
    Call: _unbound,
}


def spec_of(name: str, ty: TensorType) -> TensorSpec:
    """What a signature says of a tensor of type *ty*, whose dimensions are numbers or named."""
    return TensorSpec(name, tuple(d if isinstance(d, int) else d.name for d in ty.shape), ty.dtype)


def _copy(tensor: Tensor) -> Tensor:
    return compute(tensor.shape, lambda *i: tensor[i], name="copy")


def _group_name(op_names: Sequence[str]) -> str:
    if not op_names:
        return "copy"
    more = (f"and_{len(op_names) - 5}_more",) if len(op_names) > 6 else op_names[5:]
    name = re.sub(r"\W", "_", "_".join((*op_names[:5], *more)), flags=re.ASCII)
    return f"fused_{name}" if len(op_names) > 1 else name


def _unique(name: str, taken: set[str]) -> str:
    candidate, k = name, 0
    while candidate in taken:
        k += 1
        candidate = f"{name}_{k}"
    taken.add(candidate)
    return candidate
