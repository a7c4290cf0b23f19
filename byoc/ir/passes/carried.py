"""Work on another thread that sees what this one sees: the pass context, the targets, context variables."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from byoc.ir.passes.pass_context import PassContext
from byoc.ir.target import targets_of_thread, with_targets_of

Args = ParamSpec("Args")
Result = TypeVar("Result")


def carried(work: Callable[Args, Result]) -> Callable[Args, Result]:
    """*work*, to be called on another thread, under the contexts of this one."""
    context, passes, targets = contextvars.copy_context(), list(PassContext._stack()), targets_of_thread()

    def run(*args: Args.args, **named: Args.kwargs) -> Result:
        PassContext._local.stack = passes
        with_targets_of(targets)
        return context.run(work, *args, **named)

    return run
