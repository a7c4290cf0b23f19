"""What every level shares: types, module, operator registry, attributes, spans, passes. Source: ``tvm.ir``.

Structural equality and hash speak of expressions and stand in ``byoc.relay.structure.structural``.
"""

from byoc.ir.affine_type import AffineType, TensorAffineType, TupleAffineType
from byoc.ir.attrs import Attrs, DictAttrs
from byoc.ir.expr import BaseFunc, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Cost, Op, OpPattern, Sample, get_op, register_op, register_op_attr
from byoc.ir.passes.transform import (
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    PassInstrument,
    PassTimingInstrument,
    Sequential,
    module_pass,
    register_config_option,
)
from byoc.ir.registry import Registry, get_global_func, register_func
from byoc.ir.span import SequentialSpan, SourceName, Span, merge_spans, span_names
from byoc.ir.types import Any, FuncType, RefType, TensorType, TupleType, Type

__all__ = [
    "AffineType",
    "Any",
    "Attrs",
    "BaseFunc",
    "Cost",
    "DictAttrs",
    "FuncType",
    "GlobalVar",
    "IRModule",
    "ModulePass",
    "Op",
    "OpPattern",
    "Pass",
    "PassContext",
    "PassInfo",
    "PassInstrument",
    "PassTimingInstrument",
    "RefType",
    "Registry",
    "RelayExpr",
    "Sample",
    "Sequential",
    "SequentialSpan",
    "SourceName",
    "Span",
    "TensorAffineType",
    "TensorType",
    "TupleAffineType",
    "TupleType",
    "Type",
    "get_global_func",
    "get_op",
    "merge_spans",
    "module_pass",
    "register_config_option",
    "register_func",
    "register_op",
    "register_op_attr",
    "span_names",
]
