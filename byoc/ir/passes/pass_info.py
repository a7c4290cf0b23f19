"""What is known of a pass before it runs: its law, its forms. Source: ``tvm.transform.PassInfo``."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from byoc.errors import UserError

# The law of a pass (``PassInfo(law=...)``): why it keeps a model's meaning, in one sentence. Tests hold each pass with
# a law to it over generated modules; a pass of the pipeline without one fails them. One that changes what is computed
# (gradients) has none.


class Numbers(enum.Enum):
    """How near the outputs after a pass are to those before it."""

    BITS = "the same bits"
    ROUNDING = "the same but for the order of roundings; an integer that was rounded may be its neighbour"
    NEAR = "near, as the pass says: by a polynomial, or in a narrower type"


@dataclass(frozen=True)
class Law:
    """*says* is the equality in one sentence or formula, *numbers* what it promises of the outputs.

    Raises:
        ValueError: *says* is empty.
    """

    says: str
    numbers: Numbers = Numbers.BITS

    def __post_init__(self) -> None:
        if not self.says.strip():
            raise ValueError("a law says which equality a pass rests on, in one sentence; got an empty text")

    def __str__(self) -> str:
        return f"{self.says} ({self.numbers.value})"


# Forms of a module: a pass states those that it needs, gives and ends, and no pass of a sequence may need what was
# ended. One that does not state what it ends (a user's) may have ended any. Forms are about the functions that passes
# may look into; the inside of groups, composites and regions counts for ``typed`` alone.

FORMS: Mapping[str, str] = {
    "typed": "every expression has its type (InferType)",
    "graph_normal_form": "there is no let but of a function (ToGraphNormalForm)",
    "a_normal_form": "what is computed from is a name or a constant (ToANormalForm)",
    "unfused": "no function is a group of operators yet, or no longer (DefuseOps)",
    "fused": "each operator is in a group, a composite or a region (FuseOps)",
    "no_region_marks": "no compiler_begin and compiler_end are left (PartitionGraph)",
    "no_device_marks": "no on_device and device_copy are left (RemoveDeviceAnnotations)",
}

# what every pass ends that writes calls anew, and does not name what they read
REWRITES = ("a_normal_form",)


class PassOrderError(UserError):
    """A pass that is given a module without a form that it needs, as behind one that ends it."""


def checked_forms(names: Iterable[str], what: str) -> tuple[str, ...]:
    """*names* as a tuple. Raises UserError with the nearest for one that is no form; *what* says who names it."""
    found = tuple(names)
    for name in found:
        if name not in FORMS:
            near = difflib.get_close_matches(name, FORMS, n=1) or sorted(FORMS)
            raise UserError(f"{what}: no form of a module is called {name!r}; the nearest: {', '.join(near)}")
    return found


class KnownForms:
    """What is known of a module while a sequence runs: who gave a form and who ended it; of the others nothing."""

    def __init__(self) -> None:
        self._ended: dict[str, str] = {}

    def check(self, name: str, needs: Iterable[str]) -> None:
        """Raises PassOrderError where a pass before ended what the pass *name* needs."""
        for form in needs:
            if form in self._ended:
                raise PassOrderError(
                    f"the pass {name} needs the form {form} ({FORMS[form]}), which {self._ended[form]} before it ends; "
                    f"put {name} before {self._ended[form]}"
                )

    def check_cut(self, stage: str) -> None:
        """Raises PassOrderError where what plans and cuts, which stands behind *stage*, would find groups."""
        if "unfused" in self._ended:
            ended = self._ended["unfused"]
            raise PassOrderError(
                f"what plans and cuts a model behind stage {stage} needs the form unfused ({FORMS['unfused']}), which "
                f"{ended} ends; put {ended} into a stage behind it"
            )

    def after(self, name: str, gives: Iterable[str], ends: Iterable[str] | None) -> None:
        """The pass *name* has run."""
        if ends is None:
            self._ended.clear()
        for form in ends or ():
            self._ended[form] = name
        for form in gives:
            self._ended.pop(form, None)


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
        needs: forms (``byoc.ir.passes.pass_info``) that a module must have before it.
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
