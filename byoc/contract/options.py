"""Options of a backend's ``compile``, by the backend's name: refused where it does not know them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from byoc.errors import CompileError, PartitionError

if TYPE_CHECKING:
    from byoc.contract.backend import Backend

HOST_BACKEND = "c"  # whose options are the host's, whether it is named or not


def checked_options(given: Mapping[str, Mapping[str, object]]) -> Mapping[str, Mapping[str, object]]:
    """*given*, options by the names of their backends.

    Raises PartitionError for a backend that nobody registered, CompileError for an option that one does not have,
    UserError for a value that its backend refuses.
    """
    from byoc.contract.registration import get_backend

    for name, options in given.items():
        if not isinstance(options, Mapping):
            raise CompileError(f"the options of backend {name} are a mapping by their names, got {options!r}")
        backend = get_backend(name)
        known = _options_of(backend)
        unknown = [option for option in options if known is not None and option not in known]
        if unknown:
            raise CompileError(_no_option(name, unknown[0], known or ()))
        backend.check_options(options)
    return given


def check_option_targets(given: Mapping[str, Mapping[str, object]], targets: Iterable[str]) -> None:
    """Raises PartitionError for options of a backend that is none of *targets*, nor the host: nobody reads them."""
    named = list(dict.fromkeys((*targets, HOST_BACKEND)))
    for name, options in given.items():
        if options and name not in named:
            raise PartitionError(
                f"backend {name} is given the option {', '.join(options)}, and is no target here (the targets are "
                f"{', '.join(named)}): add {name} to the targets, or leave its options out"
            )


def _options_of(backend: Backend) -> Sequence[str] | None:
    """The options that *backend* declares for its ``compile``; None where that is its own and nothing is declared."""
    if "options" in vars(backend):
        return backend.options
    for kind in type(backend).__mro__:
        if "options" in vars(kind):
            declared: Sequence[str] | None = vars(kind)["options"]
            return declared
        if "compile" in vars(kind):
            return None
    return None


def _no_option(backend: str, option: str, known: Sequence[str]) -> str:
    if not known:
        return f"backend {backend} takes no options, got {option!r}: leave it out"
    near = difflib.get_close_matches(option, known, n=1)
    hint = f", of which {near[0]!r} is the nearest" if near else ""
    return f"backend {backend} has no option {option!r}: it takes {', '.join(known)}{hint}"
