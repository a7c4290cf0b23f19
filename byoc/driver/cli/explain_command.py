"""``byoc explain``: what every target says of an operator, and why it goes where it goes."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping

from byoc.driver.cli.compile_command import add_target_options
from byoc.driver.cli.placing_options import add_placing_options
from byoc.driver.cli.plan_command import planned
from byoc.partition.decision import Decision
from byoc.partition.plan_json import decision_to_json

HELP = "explain why the operators of a model go where they go"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of ``byoc explain``."""
    command.add_argument("model", help="the ONNX file")
    command.add_argument(
        "--node", action="append", default=[], metavar="NAME",
        help="an ONNX node or an operator, * for any text (default: what stays on the host, by reason)",
    )
    add_target_options(command)
    add_placing_options(command)


def run(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """The named nodes in full, or all that stays on the host by reason."""
    _, plan = planned(arguments)
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
    data = {"host": [decision_to_json(d) for d in plan.host], "codes": dict(by_code)}
    return data, "\n".join(lines), 0


def _sentence(decisions: tuple[Decision, ...], code: str) -> str:
    """The text of a reason, with the first operator that it met."""
    target, _, name = code.partition(":")
    for decision in decisions:
        for asked, verdict in decision.verdicts:
            for reason in verdict.reasons:
                if asked == target and reason.code == name:
                    node = f" of {decision.nodes[0]}" if decision.nodes else ""
                    return f"{target}: {reason}, as {decision.operator}{node}"
    return "no other target was asked"
