"""What is known of a pass before it runs. Source: ``tvm.transform.PassInfo``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from byoc.errors import UserError
from byoc.ir.passes.law import Law
from byoc.ir.passes.pass_forms import checked_forms

T = TypeVar("T")

# what passes of this process are called: a context that names one of them names a pass
NAMES_OF_PASSES: set[str] = set()


class PassTypeError(UserError, TypeError):
    """An argument of the pass manager that is not of the type that it must have."""


def listed(value: Iterable[T] | None, what: str) -> tuple[T, ...]:
    """*value* as a tuple; () for None. Raises PassTypeError for what is no list, tuple or set."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise PassTypeError(f"{what} is expected to be the type of list/tuple/set, got {type(value).__name__}")
    return tuple(sorted(value)) if isinstance(value, (set, frozenset)) else tuple(value)


class PassInfo:
    """The name of a pass, the level from which it runs, the passes that must have run before it, and its forms.

    The name and the level may be given in either order: Relay's has the level first.

    Args:
        name: what reports, contexts and pipelines call it.
        opt_level: the level of a context from which it runs.
        required: passes that a sequence runs before it, by name.
        traceable: kept for Relay's users.
        needs: forms (``byoc.ir.passes.pass_forms``) that a module must have before it.
        gives: forms that every module has after it.
        ends: forms that a module may have lost after it; None where that is not said, which a verifier takes as any.
        law: the equality of functions that it rests on; None for one that changes what is computed, or a user's.

    Raises:
        UserError: a form that does not exist.
    """

    __slots__ = ("ends", "gives", "law", "name", "needs", "opt_level", "required", "traceable")

    def __init__(
        self,
        name: str | int,
        opt_level: int | str = 0,
        required: Sequence[str] | None = (),
        traceable: bool = False,
        *,
        needs: Sequence[str] = (),
        gives: Sequence[str] = (),
        ends: Sequence[str] | None = None,
        law: Law | None = None,
    ):
        if isinstance(opt_level, str):
            name, opt_level = opt_level, name
        self.name, self.opt_level = str(name), int(opt_level)
        self.required: tuple[str, ...] = listed(required, "required")
        self.traceable = bool(traceable)
        self.needs = checked_forms(needs, f"needs of the pass {self.name}")
        self.gives = checked_forms(gives, f"gives of the pass {self.name}")
        self.ends = None if ends is None else checked_forms(ends, f"ends of the pass {self.name}")
        self.law = law
        NAMES_OF_PASSES.add(self.name)

    def giving(self, *forms: str) -> PassInfo:
        """The same with *forms* among those that it gives."""
        gives = dict.fromkeys((*self.gives, *forms))
        return PassInfo(
            self.name,
            self.opt_level,
            self.required,
            self.traceable,
            needs=self.needs,
            gives=tuple(gives),
            ends=self.ends,
            law=self.law,
        )

    def _key(self) -> tuple[object, ...]:
        return (self.name, self.opt_level, self.required)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PassInfo) and other._key() == self._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        required = f"[{', '.join(self.required)}]"
        return (
            f"The meta data of the pass - pass name: {self.name}, opt_level: {self.opt_level}, "
            f"required passes: {required}"
        )

    def __repr__(self) -> str:
        return f"PassInfo(name={self.name!r}, opt_level={self.opt_level}, required={self.required!r})"
