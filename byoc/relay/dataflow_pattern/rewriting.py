"""Matching and rewriting by callbacks. Source: ``relay.dataflow_pattern.rewrite``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, overload

from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.registry import register_func
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.dataflow_pattern.equality import structurally_equal
from byoc.relay.dataflow_pattern.grouper import Grouper
from byoc.relay.dataflow_pattern.indexed_graph import IndexedGraph
from byoc.relay.dataflow_pattern.matcher import Matcher
from byoc.relay.dataflow_pattern.patterns import DFPattern
from byoc.relay.traverse import children, rebuild

Matches = Sequence[RelayExpr]
MAX_APPLICATIONS = 100
T = TypeVar("T")


class NodeMap(dict[DFPattern, Matches]):
    """What each part of a pattern matched. As of Relay's ``Map``, the default of :meth:`get` may be a keyword."""

    @overload
    def get(self, key: DFPattern, default: None = None) -> Matches | None: ...
    @overload
    def get(self, key: DFPattern, default: Matches) -> Matches: ...
    @overload
    def get(self, key: DFPattern, default: T) -> Matches | T: ...
    def get(self, key: DFPattern, default: object = None) -> object:
        """What *key* matched, else *default*."""
        return super().get(key, default)


class DFPatternCallback:
    """A rewrite: set ``pattern`` in ``__init__`` and override :meth:`callback`.

    *require_type* infers types before matching; *rewrite_once* stops after the first application that changed
    something.
    """

    def __init__(self, require_type: bool = False, rewrite_once: bool = False):
        self.pattern: DFPattern | None = None
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def rewrite(self, expr: RelayExpr) -> RelayExpr:
        """*expr* rewritten by this callback until it no longer changes."""
        return rewrite(self, expr)

    def callback(self, pre: RelayExpr, post: RelayExpr, node_map: NodeMap) -> RelayExpr:
        """What stands in place of a match: *pre* before and *post* after rewriting below it.

        *node_map* gives for each part of the pattern the rewritten expressions that it matched.
        """
        raise NotImplementedError


def match(pattern: DFPattern, expr: RelayExpr) -> bool:
    """True when *expr* looks like *pattern*."""
    return Matcher(lambda: IndexedGraph(expr)).match(pattern, expr)


def rewrite(
    callbacks: DFPatternCallback | Sequence[DFPatternCallback], expr: RelayExpr, mod: IRModule | None = None
) -> RelayExpr:
    """*expr* rewritten by *callbacks* in turn until nothing changes.

    Raises UserError for a callback without a pattern, and after 100 applications of callbacks, when rewrites
    probably undo each other.
    """
    pending = [callbacks] if isinstance(callbacks, DFPatternCallback) else list(callbacks)
    for each in pending:
        _pattern_of(each)
    applications = 0
    while True:
        last = expr
        for each in list(pending):
            expr = _apply(each, expr, mod)
            applications += 1
            if each.rewrite_once and not structurally_equal(last, expr, True):
                pending.remove(each)
        if structurally_equal(last, expr, True):
            return expr
        if applications >= MAX_APPLICATIONS:
            raise UserError(f"Observed {MAX_APPLICATIONS} rewrite passes, possible conflicting passes?")


def _pattern_of(callback: DFPatternCallback) -> DFPattern:
    if not isinstance(callback.pattern, DFPattern):
        raise UserError(f"{type(callback).__name__} has no pattern: set self.pattern in its __init__")
    return callback.pattern


def _apply(callback: DFPatternCallback, expr: RelayExpr, mod: IRModule | None) -> RelayExpr:
    """One application: the groups of the pattern in *expr*, each replaced by what the callback gives."""
    if callback.require_type:
        infer_expr(expr, mod)
    graph = IndexedGraph(expr)
    groups = Grouper(_pattern_of(callback), graph).groups
    if not groups:
        return expr
    memo: dict[RelayExpr, RelayExpr] = {}
    for node in graph.nodes:
        memo[node] = post = rebuild(node, [memo[c] for c in children(node)])
        group = groups.get(node)
        if group is not None:
            node_map = NodeMap((part, [memo.get(n, n) for n in found]) for part, found in group.matched.items())
            memo[node] = callback.callback(node, post, node_map)
    return memo[expr]


register_func("relay.dataflow_pattern.match", match)
