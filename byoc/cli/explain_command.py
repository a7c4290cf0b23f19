"""``byoc explain``: what every target says of an operator, and why it goes where it goes."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping

from byoc.cli.plan_command import plan_from_arguments, request_of
from byoc.contract.backend import Backend
from byoc.contract.registration import backend_names, get_backend
from byoc.driver.compiler.plan import prepared
from byoc.driver.options import PlanRequest
from byoc.errors import UserError
from byoc.options.flags import add_flags
from byoc.partition.calls import Decision
from byoc.partition.content.plan_json import decision_to_json
from byoc.partition.show.support_matrix import support_matrix

HELP = "explain why the operators of a model go where they go"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc explain``."""
    command.add_argument("model", help="the ONNX file")
    command.add_argument(
        "--node",
        action="append",
        default=[],
        metavar="NAME",
        help="an ONNX node or an operator, * for any text (default: what stays on the host, by reason and by node)",
    )
    command.add_argument(
        "--all",
        action="store_true",
        help="for each operator of the model how many each target takes, whoever else is asked (default: all targets)",
    )
    add_flags(command, "explain", PlanRequest)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """The named nodes in full, or all that stays on the host by reason and by node, or what each target says."""
    if arguments.all:
        return _matrix(arguments)
    _, plan = plan_from_arguments(arguments)
    if arguments.node:
        found = [plan.explain(name) for name in arguments.node]
        data = {f.name: [decision_to_json(d) for d in f.decisions] for f in found}
        return {"nodes": data}, "\n".join(map(str, found)), 0
    by_code: Counter[str] = Counter(code for d in plan.host for code in d.codes)
    lines = [
        f"{len(plan.host)} of {len(plan.decisions)} operators stay on the host"
        + (":" if plan.host else "; --node NAME explains one")
    ]
    lines += [f"  {count} x {_sentence(plan.host, code)} [{code}]" for code, count in by_code.most_common()]
    lines += [line for d in plan.host for line in _by_node(d)]
    return {"host": [decision_to_json(d) for d in plan.host], "codes": dict(by_code)}, "\n".join(lines), 0


def _matrix(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """What each target says of each operator of the model."""
    asked = request_of(arguments)
    backends: list[Backend] = []
    broken: list[str] = []
    for name in asked.target_list() if arguments.target else backend_names():
        if name == "host":
            continue
        try:
            backends.append(get_backend(name))
        except UserError as error:
            if arguments.target:
                raise
            broken.append(str(error))
    names = [backend.name for backend in backends]
    mod, _ = prepared(asked, names)
    matrix = support_matrix(mod, backends)
    return {**matrix.to_json(), "broken": broken}, "\n".join([str(matrix), *broken]), 0


def _by_node(decision: Decision) -> list[str]:
    """A line for an operator on the host, and one for everything that speaks against each target."""
    node = f" ({decision.operator})" if decision.nodes else ""
    lines = [f"{', '.join(decision.nodes) or decision.operator}{node}:"]
    lines += [f"  {target}: {reason} [{reason.code}]" for target, v in decision.verdicts for reason in v.why]
    return lines if len(lines) > 1 else []


def _sentence(decisions: tuple[Decision, ...], code: str) -> str:
    """The text of a reason, with the first operator that it met."""
    target, _, name = code.partition(":")
    for decision in decisions:
        for asked, verdict in decision.verdicts:
            for reason in verdict.why:
                if asked == target and reason.code == name:
                    node = f" of {decision.nodes[0]}" if decision.nodes else ""
                    return f"{target}: {reason}, as {decision.operator}{node}"
    return "no other target was asked"
