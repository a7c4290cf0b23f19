"""Passes of a pipeline that most models do without: their modules are imported where they have something to do."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import Law
from byoc.ir.passes.transform import Pass, PassContext, PassInfo
from byoc.relay.analysis.contents import Contents, contents_of
from byoc.relay.expr import Function
from byoc.relay.transform.base.infer_type import InferType

Condition = Callable[[IRModule], bool]


class DeferredPass(Pass):
    """The pass that ``maker(*arguments)`` of the module *home* makes, of which *info* is known before.

    It is made when a module has something for it: where *applies* says no, the types are inferred, as behind each pass
    over functions, and nothing else is done.
    """

    def __init__(self, info: PassInfo, home: str, maker: str, applies: Condition, *arguments: object):
        super().__init__(info)
        self._home, self._maker, self._applies, self._arguments = home, maker, applies, arguments

    @property
    def law(self) -> Law | None:
        """That of the pass itself, which is made for it."""
        return self.made().law

    def made(self) -> Pass:
        """The pass itself."""
        found: Pass = getattr(importlib.import_module(self._home), self._maker)(*self._arguments)
        return found

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        if self._applies(mod):
            return self.made().transform_module(mod, ctx)
        return InferType()(mod) if "typed" in self.info.gives else mod


def always(mod: IRModule) -> bool:
    """For passes whose level says whether they run."""
    return True


def where_any(holds: Callable[[Contents], bool]) -> Condition:
    """Whether *holds* of what is in a function of a module."""

    def applies(mod: IRModule) -> bool:
        return any(holds(contents_of(f)) for f in mod.functions.values() if isinstance(f, Function))

    return applies


def where_called(name: str) -> Condition:
    """Whether operator *name* is called."""
    return where_any(lambda contents: contents.has_operator(name))


def where_attribute(key: str) -> Condition:
    """Whether an operator with the attribute *key* is called."""
    return where_any(lambda contents: contents.has_attribute(key))
