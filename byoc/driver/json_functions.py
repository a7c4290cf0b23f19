"""Functions of the host as JSON graphs, by a part of byoc that an installation may leave out."""

from __future__ import annotations

from collections.abc import Mapping

from byoc.errors import CompileError
from byoc.relay.expr import Function
from byoc.runtime.modules.module import Module


def compile_json(functions: Mapping[str, Function], reasons: Mapping[str, str]) -> Module:
    """One module with all *functions* by symbol, for which no code is generated, for the *reasons* by symbol.

    Raises CompileError where byoc was installed without its JSON generator or the engine for its graphs.
    """
    try:
        from byoc.codegen.json.backend import compile_functions
    except ModuleNotFoundError as error:
        symbol = next(iter(functions))
        why = f", since {reasons[symbol]}" if symbol in reasons else ""
        raise CompileError(
            f"{symbol} runs on numpy kernels{why}, and byoc is installed without {error.name}, which calls them; "
            "install byoc whole"
        ) from error
    return compile_functions(functions)
