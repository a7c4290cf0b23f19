"""Patterns over dataflow graphs: matching, partitioning and rewriting. Source: ``relay.dataflow_pattern``."""

from byoc.relay.dataflow_pattern.constructors import (
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_tuple,
    is_tuple_get_item,
    is_var,
)
from byoc.relay.dataflow_pattern.partitioning import partition_pattern as partition
from byoc.relay.dataflow_pattern.patterns import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
    is_op,
    wildcard,
)
from byoc.relay.dataflow_pattern.rewriting import DFPatternCallback, match, rewrite

__all__ = [
    "AltPattern", "AttrPattern", "CallPattern", "ConstantPattern", "DFPattern", "DFPatternCallback", "DataTypePattern",
    "DominatorPattern", "ExprPattern", "FunctionPattern", "IfPattern", "LetPattern", "ShapePattern",
    "TupleGetItemPattern", "TuplePattern", "TypePattern", "VarPattern", "WildcardPattern", "dominates", "has_attr",
    "has_dtype", "has_shape", "has_type", "is_constant", "is_expr", "is_if", "is_let", "is_op", "is_tuple",
    "is_tuple_get_item", "is_var", "match", "partition", "rewrite", "wildcard",
]
