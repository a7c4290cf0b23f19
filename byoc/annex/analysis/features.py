"""Which parts of the language a program uses. Source: ``tvm.relay.analysis.feature``."""

from __future__ import annotations

import enum

from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.relay.adt import Match
from byoc.relay.analysis.scopes import NAMES
from byoc.relay.analysis.variables import free_vars
from byoc.relay.expr import (
    Call,
    Constant,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from byoc.relay.traverse import children, post_order


class Feature(enum.IntEnum):
    """A class of node, a node that is shared (``fGraph``), or a let that names itself (``fLetRec``)."""

    fVar = 0
    fGlobalVar = 1
    fConstant = 2
    fTuple = 3
    fTupleGetItem = 4
    fFunction = 5
    fOp = 6
    fCall = 7
    fLet = 8
    fIf = 9
    fRefCreate = 10
    fRefRead = 11
    fRefWrite = 12
    fConstructor = 13
    fMatch = 14
    fGraph = 15
    fLetRec = 16


_BY_CLASS: dict[type, Feature] = {
    Var: Feature.fVar,
    GlobalVar: Feature.fGlobalVar,
    Constant: Feature.fConstant,
    Tuple: Feature.fTuple,
    TupleGetItem: Feature.fTupleGetItem,
    Function: Feature.fFunction,
    Op: Feature.fOp,
    Call: Feature.fCall,
    Let: Feature.fLet,
    If: Feature.fIf,
    RefCreate: Feature.fRefCreate,
    RefRead: Feature.fRefRead,
    RefWrite: Feature.fRefWrite,
    Constructor: Feature.fConstructor,
    Match: Feature.fMatch,
}


def _entered(node: RelayExpr) -> tuple[RelayExpr, ...]:
    """The sub-expressions of *node* and its operator; a ``Primitive`` function is not entered."""
    if isinstance(node, Function) and node.attrs.get("Primitive"):
        return ()
    inner = tuple(children(node))
    return (node.op, *inner) if isinstance(node, Call) and isinstance(node.op, Op) else inner


def _features_of(expr: RelayExpr) -> set[Feature]:
    found: set[Feature] = set()
    used: set[RelayExpr] = set()
    for node in post_order(expr, _entered):
        found.add(_BY_CLASS[type(node)])
        if isinstance(node, Let) and node.variable in free_vars(node.value):
            found.add(Feature.fLetRec)
        for child in _entered(node):
            if child in used and not isinstance(child, (*NAMES, Constant)):
                found.add(Feature.fGraph)
            used.add(child)
    return found


def detect_feature(a: RelayExpr | IRModule, b: RelayExpr | IRModule | None = None) -> set[Feature]:
    """The features of an expression, of all functions of a module, or of both. Source: ``analysis.detect_feature``."""
    found: set[Feature] = set()
    for given in (a, b):
        if isinstance(given, IRModule):
            for func in given.functions.values():
                found |= _features_of(func)
        elif given is not None:
            found |= _features_of(given)
    return found
