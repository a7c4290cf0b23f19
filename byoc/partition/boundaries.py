"""What the user says about places: operators kept from targets, put on one, and points behind which all stays at home.

A name is an ONNX node, an operator or a composite's name, and may hold ``*``. Each rule must mean something: one from
Python or the command line that does not is an error that offers the nearest names, a line of a file is reported and
the others hold. See ``boundary_file.py`` for the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from byoc.contract.verdict import Reason
from byoc.errors import PartitionError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.partition.calls import Decision, functions_of, means, names_of, nearest
from byoc.relay.analysis.regions.annotated_regions import open_children
from byoc.relay.expr import Call
from byoc.relay.traverse import post_order

Names = Sequence[str] | Mapping[str, Sequence[str]]
HOST = "host"
EXCLUDE, FORCE, STOP_AT = "exclude", "force", "stop_at"


@dataclass(frozen=True)
class PlacementRule:
    """One rule: its kind, the name that it is about, its target (None: every target), and where it was said.

    ``exclude`` keeps the named from the target, ``force`` puts them there (or on the ``host``), ``stop_at`` keeps them
    and all that depends on them from the target. *strict*: an error where it cannot be honoured, else a note. *exact*:
    ``*`` is a letter like others.
    """

    kind: str
    name: str
    target: str | None = None
    origin: str = ""
    strict: bool = True
    exact: bool = False

    def matches(self, names: Collection[str]) -> bool:
        """True when one of *names* is meant."""
        return self.name in names or ("*" in self.name and not self.exact and any(means(self.name, n) for n in names))

    def __str__(self) -> str:
        where = f" {'to' if self.kind == FORCE else 'from'} {self.target}" if self.target else ""
        return f"{self.origin or self.kind}: {self.name}{where}" if self.origin else f"{self.kind}: {self.name}{where}"


@dataclass(frozen=True)
class Boundaries:
    """All rules of a plan."""

    rules: tuple[PlacementRule, ...] = ()

    @staticmethod
    def of(
        targets: Sequence[str],
        exclude: Names = (),
        force: Mapping[str, Sequence[str]] | None = None,
        stop_at: Names = (),
        lines: Iterable[PlacementRule] = (),
    ) -> Boundaries:
        """The rules of the arguments and of a file's *lines*.

        *exclude* and *stop_at* are names for every target, or names by target; *force* names by target, of which
        ``host`` is one. Raises PartitionError for a target that is not asked for, and for rules that contradict.
        """
        rules = [*_rules(EXCLUDE, exclude), *_rules(STOP_AT, stop_at)]
        if force is not None and not isinstance(force, Mapping):
            raise PartitionError('force is a mapping from target to names: force={"acme": ["Conv_12"]}')
        rules += _rules(FORCE, force or {})
        rules += lines
        for rule in rules:
            known = [*targets, HOST] if rule.kind == FORCE else targets
            if (rule.target is not None or rule.kind == FORCE) and rule.target not in known:
                asked = ", ".join(targets) or "none"
                raise PartitionError(
                    f"{rule.origin or rule.kind} names the target {rule.target!r}, which is not asked for; "
                    f"asked: {asked}"
                )
        _refuse_contradictions(rules)
        return Boundaries(tuple(rules))

    def check(self, known: Collection[str]) -> list[str]:
        """Notes on the lines that mean nothing among *known*. Raises PartitionError for a rule that is no line."""
        notes: list[str] = []
        for rule in self.rules:
            if rule.matches(known):
                continue
            text = (
                f"{rule.origin or rule.kind}: no operator or ONNX node of the model is called {rule.name!r}; "
                f"the nearest: {nearest(rule.name, known)}"
            )
            if rule.strict:
                raise PartitionError(text)
            notes.append(text)
        return notes

    def on(self, mod: IRModule) -> BoundaryView:
        """The rules as they apply to the calls of *mod*."""
        return BoundaryView(self.rules, mod)

    def not_kept(self, decided: Iterable[tuple[Call, Decision]]) -> list[str]:
        """Notes on the lines that force an operator where it did not go. Raises PartitionError for a rule that is no
        line.
        """
        notes: dict[str, None] = {}
        forced = [r for r in self.rules if r.kind == FORCE and r.target != HOST]
        for call, decision in decided if forced else ():
            for rule in forced:
                if decision.target == rule.target or not rule.matches(names_of(call)):
                    continue
                why = "; ".join(str(r) for t, v in decision.verdicts if t == rule.target for r in v.reasons)
                node = f" (node {', '.join(decision.nodes)})" if decision.nodes else ""
                text = f"{rule}: {decision.operator}{node} cannot go there: {why or 'another rule keeps it away'}"
                if rule.strict:
                    raise PartitionError(text)
                notes[text] = None
        return list(notes)


class BoundaryView:
    """The rules on one module: why a call may not go to a target."""

    def __init__(self, rules: Sequence[PlacementRule], mod: IRModule):
        self._exclude, self._force, self._stop = (
            [r for r in rules if r.kind == kind] for kind in (EXCLUDE, FORCE, STOP_AT)
        )
        self._after: dict[Call, dict[PlacementRule, None]] = {}
        if self._stop:
            for _, func in functions_of(mod):
                self._find_after(list(post_order(func, open_children)))

    def _find_after(self, nodes: Sequence[RelayExpr]) -> None:
        """For each node the stops that it is, or that it depends on."""
        after: dict[RelayExpr, dict[PlacementRule, None]] = {}
        for node in nodes:
            found: dict[PlacementRule, None] = {}
            for child in open_children(node):
                found.update(after.get(child, {}))
            if isinstance(node, Call):
                names = names_of(node)
                found.update({r: None for r in self._stop if r.matches(names)})
            after[node] = found
            if found and isinstance(node, Call):
                self._after[node] = found

    def reason(self, target: str, call: Call) -> Reason | None:
        """Why *call*, an operator or a composite, may not go to *target*; None where it may."""
        names = names_of(call) if self._exclude or self._force else ()
        if any(r.target in (None, target) and r.matches(names) for r in self._exclude):
            return Reason("excluded", "the user excluded it")
        for rule in self._force:
            if rule.target != target and rule.matches(names):
                return Reason("forced", f"the user put it on {'the host' if rule.target == HOST else rule.target}")
        for rule in self._after.get(call, ()):
            if rule.target in (None, target):
                return Reason("stopped", f"the user stops at {rule.name}")
        return None

    def forced(self, call: Call) -> PlacementRule | None:
        """The rule that puts *call* on a target other than the host."""
        if not self._force:
            return None
        names = names_of(call)
        return next((r for r in self._force if r.target != HOST and r.matches(names)), None)


def _rules(kind: str, names: Names) -> list[PlacementRule]:
    if isinstance(names, str):
        raise PartitionError(f"{kind} is a list of names, or names by target; write {kind}=[{names!r}]")
    by_target = names.values() if isinstance(names, Mapping) else (names,)
    other = next((listed for listed in by_target if not isinstance(listed, (str, Iterable))), ())
    if other != ():
        raise PartitionError(f"{kind} is a list of names, or names by target, got {other!r}")
    if not isinstance(names, Mapping):
        return [PlacementRule(kind, str(name)) for name in names]
    text = next((t for t, listed in names.items() if isinstance(listed, str)), None)
    if text is not None:
        raise PartitionError(f"{kind} has a list of names for each target; write {text!r}: [{names[text]!r}]")
    return [PlacementRule(kind, str(name), str(target)) for target, listed in names.items() for name in listed]


def _refuse_contradictions(rules: Sequence[PlacementRule]) -> None:
    forced: dict[str, PlacementRule] = {}
    for rule in rules:
        if rule.kind == FORCE:
            first = forced.setdefault(rule.name, rule)
            if first.target != rule.target:
                raise PartitionError(
                    f"{rule.name!r} is put on {first.target} and on {rule.target}; it can be at one place: drop one"
                )
    for rule in rules:
        other = forced.get(rule.name)
        if rule.kind != FORCE and other is not None and other.target != HOST and rule.target in (None, other.target):
            raise PartitionError(
                f"{rule.name!r} is put on {other.target} by force and kept from it by {rule.kind}; drop one of both"
            )
