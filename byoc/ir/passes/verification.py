"""The verifier between passes: after each the module keeps the laws, or the pass that broke one is named.

It is on under ``PassContext(config={"byoc.verify": True})``, and everywhere with ``BYOC_VERIFY=1`` in the environment,
as the tests have it. What is checked stands in ``byoc.relay.verify``. A pass inside another is part of that one, and a
sequence is its passes; a function that a pass hands on unchanged is not looked at again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from byoc.errors import InternalError
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import FORMS, PassInfo, PassOrderError
from byoc.ir.registry import get_global_func

VERIFY = "byoc.verify"
VERIFY_VARIABLE = "BYOC_VERIFY"


class VerificationError(InternalError):
    """A module that does not keep the laws: who broke it (``the pass FuseOps``), and what.

    ``maker`` and ``problem`` are the two halves of the sentence.
    """

    def __init__(self, maker: str, problem: str):
        super().__init__(f"{maker} broke the module: {problem}")
        self.maker, self.problem = maker, problem


class VerifiedForms(Protocol):
    """What is known of a module: the first problem, or None, and the forms that it has."""

    problem: str | None
    forms: frozenset[str]


class _Thread(threading.local):
    """The pass that runs in this thread, inside which nothing is verified; and what was verified last."""

    inside: str | None = None
    verdict: object = None


_THREAD = _Thread()


def is_verifying(config: Mapping[str, object]) -> bool:
    """Whether modules are verified under the options *config*: as they say, else as the environment does."""
    asked = config.get(VERIFY)
    return bool(asked) if asked is not None else os.environ.get(VERIFY_VARIABLE, "") not in ("", "0")


def verified(mod: IRModule, info: PassInfo, run: Callable[[], IRModule]) -> IRModule:
    """What *run*, the pass of *info*, makes of *mod*.

    Raises:
        VerificationError: the pass was given a module that keeps the laws and gave one that does not, or one without a
            form that it states to give or to keep.
        PassOrderError: it was given one without a form that it needs.
    """
    if _THREAD.inside is not None:
        return run()
    before = verdict_of(mod)  # first, since a pass may write into the module that it is given
    _check_needs(info, before)
    _THREAD.inside = info.name
    try:
        result = run()
    finally:
        _THREAD.inside = None
    after = verdict_of(result)
    if after.problem is not None:
        if before.problem is None:
            raise VerificationError(f"the pass {info.name}", after.problem)
        return result
    _check_statements(info, before, after)
    return result


def verdict_of(mod: IRModule) -> VerifiedForms:
    """What the laws say of *mod*; functions that the last module of this thread had too are known, and kept so."""
    _THREAD.verdict = found = _verify(mod, _THREAD.verdict)
    return found


def problem_of(mod: IRModule) -> str | None:
    """The first law that *mod* breaks, as a sentence; None where it keeps all. Nothing of it is kept."""
    return _verify(mod, None).problem


def _verify(mod: IRModule, last: object) -> VerifiedForms:
    verify: Callable[[IRModule, object], VerifiedForms] = get_global_func("relay.ir.verify")
    return verify(mod, last)


def check_made(mod: IRModule, maker: str, config: Mapping[str, object]) -> IRModule:
    """*mod*, which something that is no pass has made: *maker* is who, for the message.

    Raises VerificationError where modules are verified under *config* and this one breaks a law.
    """
    if is_verifying(config) and _THREAD.inside is None:
        problem = verdict_of(mod).problem
        if problem is not None:
            raise VerificationError(maker, problem)
    return mod


def blame(info: PassInfo, given: IRModule, made: IRModule, error: Exception) -> Exception:
    """*error*, met when typing what a pass *made* of what it was *given*, as that pass's doing where it is."""
    problem = verdict_of(made).problem
    if problem is None or verdict_of(given).problem is not None:
        return error
    return VerificationError(f"the pass {info.name}", problem)


def _check_needs(info: PassInfo, before: VerifiedForms) -> None:
    if before.problem is not None:
        return
    for form in info.needs:
        if form not in before.forms:
            raise PassOrderError(
                f"the pass {info.name} needs the form {form} ({FORMS[form]}), which the module that it was given lacks"
            )


def _check_statements(info: PassInfo, before: VerifiedForms, after: VerifiedForms) -> None:
    for form in info.gives:
        if form not in after.forms:
            raise VerificationError(
                f"the pass {info.name}", f"it states to give the form {form} ({FORMS[form]}), and did not"
            )
    if info.ends is None or before.problem is not None:
        return
    for form in sorted(before.forms - after.forms):
        if form not in info.ends:
            raise VerificationError(
                f"the pass {info.name}", f"it ended the form {form} ({FORMS[form]}), which it does not state"
            )
