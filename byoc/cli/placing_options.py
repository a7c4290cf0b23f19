"""The options that say where operators go: of ``byoc plan``, ``explain``, ``partition`` and ``compile``."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from byoc.cli.words import FORMULAS, LIMITS, OBJECTIVES, POLICIES, TIME_LIMIT
from byoc.errors import UserError

if TYPE_CHECKING:
    from byoc.contract.limits import Limits
    from byoc.driver.planning import Placing


def add_placing_options(command: argparse.ArgumentParser) -> None:
    """The options; ``--target``, ``--shape`` and ``--exclude`` are others'."""
    _add_policies(command)
    _add_rules(command)


def _add_policies(command: argparse.ArgumentParser) -> None:
    """How it is decided what goes where."""
    command.add_argument(
        "--policy",
        choices=POLICIES,
        default="order",
        help="order: the first target that takes an operator (default); score: Paddle Lite's grade; cost: the cut that "
        "costs least; model: what the model's device configuration says",
    )
    command.add_argument(
        "--configuration",
        metavar="NAME",
        help="policy model: which of the model's device configurations to follow, where it has several",
    )
    command.add_argument(
        "--prefer",
        action="append",
        default=[],
        metavar="NAME=TARGET,...",
        help="policy order: the targets of an operator or ONNX node in an order of its own",
    )
    command.add_argument(
        "--costs",
        action="append",
        default=[],
        metavar="[NAME=]COSTS",
        help="what things cost: analytic (default), measured, or a table's .json file; for one target acme=acme.json",
    )
    command.add_argument(
        "--place",
        action="append",
        default=[],
        metavar="TARGET/PRECISION/LAYOUT",
        help="policy score: a place that is wanted, the first the most (default: each target's own, then the host)",
    )
    command.add_argument(
        "--formula",
        choices=FORMULAS,
        default="code",
        help="policy score: the grade of Paddle Lite's code or document",
    )
    command.add_argument(
        "--objective",
        choices=OBJECTIVES,
        default=OBJECTIVES[0],
        help="latency adds everything up (default); makespan lets devices work at the same time",
    )


def _add_rules(command: argparse.ArgumentParser) -> None:
    """What is asked of the decision, whatever the policy."""
    command.add_argument(
        "--force",
        action="append",
        default=[],
        metavar="TARGET=NAME",
        help='put an ONNX node or an operator on a target, or on the "host"',
    )
    command.add_argument(
        "--stop-at",
        action="append",
        default=[],
        metavar="NAME",
        help="keep an ONNX node or operator, and all that depends on it, on the host",
    )
    command.add_argument("--boundaries", metavar="FILE", help="a file of such rules: exclude, force, stop_at")
    command.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="TARGET.LIMIT=NUMBER",
        help=f"a limit of a target's regions, one of {', '.join(LIMITS)} (microseconds)",
    )
    command.add_argument(
        "--time-limit",
        type=float,
        default=TIME_LIMIT,
        metavar="SECONDS",
        help=f"how long the cheapest cut is sought (default: {TIME_LIMIT:g})",
    )


def asked_placing(arguments: argparse.Namespace) -> list[str]:
    """The options that are given, and not as they are where nobody gives them."""
    command = argparse.ArgumentParser()
    add_placing_options(command)
    usual = vars(command.parse_args([]))
    return [f"--{name.replace('_', '-')}" for name, value in usual.items() if getattr(arguments, name) != value]


def placing_from(arguments: argparse.Namespace) -> Placing:
    """What the command line says. Raises UserError for an option that is not of its form."""
    made: Placing = importlib.import_module("byoc.driver.planning").Placing(
        arguments.exclude,
        _forced(arguments.force),
        arguments.stop_at,
        arguments.boundaries,
        arguments.policy,
        _costs(arguments.costs),
        arguments.objective,
        _limits(arguments.limit),
        arguments.time_limit,
        arguments.place,
        arguments.formula,
        _preferred(arguments.prefer),
        arguments.configuration,
    )
    return made


def _preferred(texts: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in texts:
        name, _, listed = text.rpartition("=")
        targets = [target.strip() for target in listed.split(",")]
        if not name or not all(targets):
            raise UserError(f"--prefer {text!r}: expected NAME=TARGET,TARGET, as in --prefer nn.conv2d=acme2,acme1")
        if name in found:
            raise UserError(f"--prefer {text!r}: {name} has a list already; give it one")
        found[name] = targets
    return found


def _forced(texts: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in texts:
        target, equals, name = text.partition("=")
        if not equals or not target or not name:
            raise UserError(f"--force {text!r}: expected TARGET=NAME, as in --force acme=Conv_12")
        found.setdefault(target, []).append(name)
    return found


def _costs(texts: Sequence[str]) -> object:
    named = [text.split("=", 1) for text in texts if "=" in text]
    plain = [text for text in texts if "=" not in text]
    if len(plain) > 1 or (plain and named):
        raise UserError("--costs is given once for all targets, or as NAME=COSTS for each")
    if named:
        return {name: costs for name, costs in named}
    return plain[0] if plain else "analytic"


def _limits(texts: Sequence[str]) -> dict[str, Limits] | None:
    found: dict[str, dict[str, float]] = {}
    for text in texts:
        where, _, number = text.partition("=")
        target, _, name = where.rpartition(".")
        if name not in LIMITS or not target:
            raise UserError(f"--limit {text!r}: expected TARGET.LIMIT=NUMBER, the limit one of {', '.join(LIMITS)}")
        try:
            found.setdefault(target, {})[name] = LIMITS[name](number)
        except ValueError as error:
            wanted = "a whole number" if LIMITS[name] is int else "a number"
            raise UserError(f"--limit {text!r}: {number!r} is not {wanted}, which {name} is") from error
    if not found:
        return None
    limits = importlib.import_module("byoc.contract.backend").Limits
    return {target: limits.of(values, target) for target, values in found.items()}
