"""ToMixedPrecision: operators run in half precision where that is safe, with casts between.

Each operator is converted always, never, or as its inputs are (``FTVMMixedPrecisionConversionType``); parameters and
constants fit either. A value is cast once to each dtype. Parameters keep their types; results do where
``relay.ToMixedPrecision.keep_orig_output_dtype`` is set. Source: ``relay.transform.ToMixedPrecision``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from byoc.errors import UserError
from byoc.ir.attrs import Attrs, AttrValue, as_int, changed
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo, register_config_option
from byoc.ir.traits import Conversion
from byoc.ir.types import TensorType, TupleType, Type
from byoc.relay import op
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Let, Tuple, TupleGetItem, Var
from byoc.relay.narrowing import as_call
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.mixed_precision import conversion_of
from byoc.relay.traverse import children, rebuild, rewrite

KEEP_DTYPE = "relay.ToMixedPrecision.keep_orig_output_dtype"
register_config_option(KEEP_DTYPE, bool)
_FLOATS = ("float16", "float32", "float64", "bfloat16")


def ToMixedPrecision(mixed_precision_type: str = "float16", missing_op_mode: int = 1) -> FunctionPass:
    """The pass that converts to *mixed_precision_type*.

    An operator without a category stays as it is: silently with *missing_op_mode* 2, with a warning with 1; with 0
    UserError is raised.
    """
    if missing_op_mode not in (0, 1, 2):
        raise UserError(f"missing_op_mode must be either 0, 1, or 2, got {missing_op_mode}")

    if mixed_precision_type not in ("float16", "bfloat16"):
        raise UserError(f"mixed precision is float16 or bfloat16, got {mixed_precision_type!r}")

    def convert(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        converter = _Converter(mod, mixed_precision_type, missing_op_mode)
        made = converter.function(infer_function(func, mod), bool(ctx.config.get(KEEP_DTYPE)))
        converter.warn()
        return made

    return FunctionPass(
        convert,
        PassInfo(
            "ToMixedPrecision",
            0,
            ends=REWRITES,
            law=Law("float32 through float16, as the rules of each operator allow", Numbers.NEAR),
        ),
    )


class _Converter:
    """Converts the functions of one global function."""

    def __init__(self, mod: IRModule, dtype: str, missing_op_mode: int):
        self._mod, self._dtype, self._mode = mod, dtype, missing_op_mode
        self._casts: dict[tuple[RelayExpr, str], RelayExpr] = {}
        self._memo: dict[RelayExpr, RelayExpr] = {}
        self._missing: dict[str, None] = {}

    def warn(self) -> None:
        """Name the operators without a category, where that is asked for."""
        for name in self._missing if self._mode == 1 else ():
            warnings.warn(f"operator {name} has no rule of mixed precision: it is left as it is", stacklevel=2)

    def function(self, func: Function, keep: bool) -> Function:
        """*func* converted; with *keep*, its result has the dtype that it had."""
        body = rewrite(func.body, self._converted, _inner, self._memo)
        if keep:
            body = self._as_type(body, func.body.checked_type)
        if body is func.body:
            return func
        return Function(func.params, body, None, func.type_params, func.attrs, func.span)

    def _converted(self, before: RelayExpr, after: RelayExpr) -> RelayExpr:
        new = self._over_converted(before, after)
        if new._checked_type is None:
            infer_expr(new, self._mod)
        return new

    def _over_converted(self, before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if isinstance(before, Call):
            return self._call(before, as_call(after).args, as_call(after).op)
        if isinstance(before, Function):
            is_unit = before.attrs.get("Primitive") or before.attrs.get("Compiler")
            return before if is_unit else self.function(before, keep=True)
        if isinstance(after, Let):
            return self._let(after)
        if isinstance(before, (Tuple, TupleGetItem)):
            return after
        inner = zip(children(after), children(before), strict=True)  # branches and references keep their dtypes
        new = [self._as_type(n, c.checked_type) for n, c in inner]
        return rebuild(before, new) if new else before

    def _let(self, let: Let) -> RelayExpr:
        value = let.value
        if value.checked_type != let.variable.checked_type:
            value = self._as_type(value, let.variable.checked_type)
        return rebuild(let, [let.variable, value, let.body])

    def _call(self, call: Call, args: Sequence[RelayExpr], callee: RelayExpr) -> RelayExpr:
        if not isinstance(call.op, Op):
            kept = [self._as_type(new, old.checked_type) for new, old in zip(args, call.args, strict=True)]
            return rebuild(call, [callee, *kept])
        category, sums, result = self._category(call)
        if category == Conversion.FOLLOW:
            fits = all(isinstance(a, (Var, Constant)) or self._is_mixed(a.checked_type) for a in args)
            category = Conversion.ALWAYS if fits else Conversion.NEVER
        always = category == Conversion.ALWAYS
        wanted = self._dtype if always else "float32"
        cast = [self._cast(a, wanted) for a in args]
        attrs = _with_dtype(call.attrs, sums if always else "float32", fill=always)
        if attrs is call.attrs and all(a is b for a, b in zip(cast, call.args, strict=True)):
            return call
        new: RelayExpr = Call(call.op, cast, attrs, call._type_args, call.span)
        infer_expr(new, self._mod)
        return self._cast(new, result) if always and sums != result else new

    def _category(self, call: Call) -> tuple[int, str, str]:
        """The category of a call, and the dtypes in which it sums and answers. Raises UserError for a missing rule."""
        assert isinstance(call.op, Op)
        rule = conversion_of(call.op)
        if rule is None:
            if self._mode == 0:
                raise UserError(
                    f"operator {call.op.name} has no rule of mixed precision: give it one by "
                    "relay.op.register_mixed_precision_conversion"
                )
            self._missing[call.op.name] = None
            return Conversion.NEVER, "float32", "float32"
        found = list(rule(call, self._dtype))
        if len(found) != 3:
            raise UserError(f"the mixed-precision rule of {call.op.name} gives [category, dtype, dtype], got {found}")
        return as_int(found[0]), str(found[1]), str(found[2])

    def _is_mixed(self, ty: Type) -> bool:
        """True when nothing in *ty* is a float of another dtype."""
        if isinstance(ty, TupleType):
            return all(self._is_mixed(f) for f in ty.fields)
        return not isinstance(ty, TensorType) or ty.dtype not in _FLOATS or ty.dtype == self._dtype

    def _cast(self, expr: RelayExpr, dtype: str) -> RelayExpr:
        """*expr* with its floats as *dtype*; made once for each."""
        ty = expr.checked_type
        if isinstance(ty, TupleType):
            return self._fields(expr, ty, [dtype] * len(ty.fields))
        if not isinstance(ty, TensorType) or ty.dtype not in _FLOATS or ty.dtype == dtype:
            return expr
        key = (expr, dtype)
        if key not in self._casts:
            new = op.cast(expr, dtype)
            infer_expr(new, self._mod)
            self._casts[key] = new
            self._casts[(new, ty.dtype)] = expr
        return self._casts[key]

    def _as_type(self, expr: RelayExpr, ty: Type) -> RelayExpr:
        """*expr* with the dtypes of *ty*."""
        if isinstance(ty, TupleType) and isinstance(expr.checked_type, TupleType):
            return self._fields(expr, expr.checked_type, list(ty.fields))
        return self._cast(expr, ty.dtype) if isinstance(ty, TensorType) else expr

    def _fields(self, expr: RelayExpr, ty: TupleType, wanted: Sequence[str | Type]) -> RelayExpr:
        fields = list(expr.fields) if isinstance(expr, Tuple) else None
        if fields is None:
            fields = [TupleGetItem(expr, k) for k in range(len(ty.fields))]
            for field, of in zip(fields, ty.fields, strict=True):
                field._checked_type = of
        pairs = list(zip(fields, wanted, strict=True))
        new = [self._cast(f, w) if isinstance(w, str) else self._as_type(f, w) for f, w in pairs]
        if all(a is b for a, b in zip(new, fields, strict=True)):
            return expr
        made = Tuple(new, expr.span)
        infer_expr(made, self._mod)
        return made


def _inner(node: RelayExpr) -> Sequence[RelayExpr]:
    """What is converted before *node*: a function converts its own body, a let its value before its body."""
    if isinstance(node, Function):
        return ()
    return (node.value, node.body) if isinstance(node, Let) else children(node)


def _with_dtype(attrs: Attrs | None, dtype: str, fill: bool) -> Attrs | None:
    """*attrs* with the dtype of sums, or of what is made, as *dtype*, where there is one and it is a float's.

    *fill* sets it where it was left to the inputs, too.
    """
    changes: dict[str, AttrValue] = {}
    given = getattr(attrs, "out_dtype", False)
    if given in _FLOATS or (fill and given in ("", "void", None)):
        changes["out_dtype"] = dtype
    if getattr(attrs, "dtype", None) in _FLOATS:
        changes["dtype"] = dtype
    same = all(getattr(attrs, name) == value for name, value in changes.items())
    return attrs if same else changed(attrs, **changes)
