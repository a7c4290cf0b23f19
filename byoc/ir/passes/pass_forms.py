"""The forms of a module that passes need, give and end, and the law of a sequence: nothing needs what was ended.

A pass says three things in its :class:`~byoc.ir.passes.pass_info.PassInfo`: the forms it *needs*, those it *gives*, and
those that it *ends*. A pass that says nothing of what it ends (a user's) may have ended any. The forms are those of the
functions that passes may look into; the inside of groups, composites and regions counts for ``typed`` alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from byoc.errors import UserError

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

    def after(self, name: str, gives: Iterable[str], ends: Iterable[str] | None) -> None:
        """The pass *name* has run."""
        if ends is None:
            self._ended.clear()
        for form in ends or ():
            self._ended[form] = name
        for form in gives:
            self._ended.pop(form, None)
