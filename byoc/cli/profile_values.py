"""``byoc profile --values``: what numbers stand between the operators, instead of what they take."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from byoc.cli.report.progress import StageProgress
from byoc.cli.run_command import is_model, load_artifact
from byoc.cli.tensors.arrays import named_arrays, named_sizes
from byoc.debug.statistics import ValueStatistics, statistics
from byoc.driver.options import CompileRequest
from byoc.errors import UserError
from byoc.options.flags import given_options
from byoc.runtime.artefact.artifact import replace_file

TAKEN = ("targets", "shapes", "pipeline", "precision", "keep_f32")
MOST_ROWS = 60


def profile_values(arguments: argparse.Namespace) -> tuple[Mapping[str, object], str, int]:
    """The table of the values of one run. Raises UserError for options that are not for it."""
    outputs = [Path(text) for text in arguments.output]
    _check(arguments, outputs)
    given = given_options(arguments, CompileRequest)
    other = next((name for name in given if name not in TAKEN), None)
    if other is not None:
        raise UserError(f"--values compiles a model operator by operator, where {other} has no meaning; leave it out")
    path = Path(arguments.file)
    with StageProgress(quiet=arguments.json) as progress:
        model = path if is_model(path) else load_artifact(path, arguments, progress)
        progress("running")
        inputs, sizes = named_arrays(arguments.inputs, "--inputs"), named_sizes(arguments.size)
        found = statistics(model, **given, inputs=inputs, sizes=sizes)
    values = ValueStatistics(path.stem, found.rows)
    data = json.dumps(values.to_json(), indent=1).encode()
    for output in outputs:
        replace_file(output, lambda file: file.write(data))
    wrote = "".join(f"\nwrote {output}" for output in outputs)
    return values.to_json(), values.table(None if arguments.all else MOST_ROWS) + wrote, 0


def _check(arguments: argparse.Namespace, outputs: Sequence[Path]) -> None:
    for output in outputs:
        if output.suffix != ".json" or output.name.endswith(".trace.json"):
            raise UserError(f"--output {output}: values are written as .json")
    if arguments.compare:
        raise UserError("--compare is for times; byoc compare holds the values of two runs against each other")
    if arguments.vm:
        raise UserError("--values and --vm: the values of a graph are looked at, not those of the virtual machine")
