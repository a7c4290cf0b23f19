"""What byoc makes of an exported file, held to ONNX Runtime on the same inputs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
import onnxruntime

import byoc
from byoc.errors import UserError

from .second_look import CHOOSES, DRAWS, Feed, given, is_ill_conditioned

MOST = 1e-4
OPTIONS = {"c": {"flags": ["-O1"]}}  # numbers are asked for and no speed: the compiler takes half the time
AGREES, DIFFERS, REFUSED, BROKEN = "agrees", "differs", "refused", "byoc failed"
CHOSEN, DRAWN, ILL = "agrees, its choices given", "agrees, its random numbers given", "ill conditioned"
REFERENCE = "ONNX Runtime failed"  # which is nothing that byoc can answer for
GIVEN = {CHOSEN: CHOOSES, DRAWN: DRAWS}


@dataclass
class Finding:
    """The verdict on one file.

    Attributes:
        verdict: one of AGREES, CHOSEN, DRAWN, ILL (``second_look``), DIFFERS, REFUSED, BROKEN, REFERENCE.
        reason: why it is not AGREES.
        error: the largest difference, as a share of the output's range.
        sizes: on how many sets of inputs.
        on_numpy: functions that run on numpy kernels, with the reason.
        differing: the runs of which an output is too far off: inputs, what byoc gives, what ONNX Runtime gives.
    """

    verdict: str
    reason: str = ""
    error: float = 0.0
    sizes: int = 0
    on_numpy: list[str] = field(default_factory=list)
    differing: list[tuple[Feed, list[np.ndarray], list[np.ndarray]]] = field(default_factory=list)

    def row(self) -> dict[str, object]:
        """What is written down of it."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "differing"}


def judge(path: Path, inputs: list[Path]) -> Finding:
    """The verdict on the model at *path*, run on each of *inputs*, of which the first has the exported sizes."""
    try:
        session = reference(path)
        names = {i.name for i in session.get_inputs()}
        feeds = [{k: v for k, v in dict(np.load(p)).items() if k in names} for p in inputs]
        wanted = [session.run(None, feeds[0]), *(run_or_none(session, feed) for feed in feeds[1:])]
    except Exception as err:
        return Finding(REFERENCE, sentence(err).replace(str(path), path.name))
    if len(wanted) > 1 and all(want is None for want in wanted[1:]):
        return Finding(REFERENCE, "it runs the exported file at the exported sizes alone")
    runs = [(feed, want) for feed, want in zip(feeds, wanted, strict=True) if want is not None]
    found = compared(path, runs)
    return looked_at_again(path, runs, found) if found.verdict == DIFFERS else found


def compared(path: Path, runs: list[tuple[Feed, list[np.ndarray]]]) -> Finding:
    """The verdict on what byoc gives for each feed of *runs*, held to what is wanted."""
    try:
        library = byoc.compile(path, targets=["c"], backend_options=OPTIONS)
    except UserError as err:
        return Finding(REFUSED, sentence(err).replace(f"{path}: ", ""))
    except Exception as err:
        return Finding(BROKEN, f"{type(err).__name__}: {sentence(err)}")
    found = Finding(AGREES, on_numpy=on_numpy(library.report))
    for feed, want in runs:
        try:
            got = [np.asarray(a) for a in library.run(feed)]
        except Exception as err:
            found.verdict, found.reason = BROKEN, f"run: {type(err).__name__}: {sentence(err)}"
            return found
        found.sizes += 1
        found.differing += [(feed, got, want)] if compare(got, want, found) else []
    return found


def looked_at_again(path: Path, runs: list[tuple[Feed, list[np.ndarray]]], found: Finding) -> Finding:
    """*found*, which differs, with the verdict of the first rule of ``second_look`` that it keeps."""
    for verdict, operators in GIVEN.items():
        with tempfile.TemporaryDirectory() as folder:
            cut = Path(folder) / "given.onnx"
            feeds = given(path, operators, cut, [feed for feed, _ in runs])
            if feeds is None:
                continue
            session = reference(cut)
            names = {i.name for i in session.get_inputs()}
            feeds = [{k: v for k, v in feed.items() if k in names} for feed in feeds]
            if compared(cut, [(feed, session.run(None, feed)) for feed in feeds]).verdict == AGREES:
                found.verdict = verdict
                return found
    if all(is_ill_conditioned(path, *differing) for differing in found.differing):
        found.verdict = ILL
    return found


def run_or_none(session: onnxruntime.InferenceSession, feed: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """What ONNX Runtime gives; None where the exported file has not these sizes (the exporter fixed one after all)."""
    try:
        outputs: list[np.ndarray] = session.run(None, feed)
    except Exception:
        return None
    return outputs


def reference(path: Path) -> onnxruntime.InferenceSession:
    """ONNX Runtime's session of one thread, without the rewrites that change roundings."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def compare(got: list[np.ndarray], want: list[np.ndarray], found: Finding) -> bool:
    """Whether an output is further off than MOST of its range, which lowers the verdict in *found*."""
    differs = False
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.shape != b.shape:
            found.verdict, found.reason = DIFFERS, f"output {i} has the shape {a.shape}, ONNX Runtime's has {b.shape}"
            return True
        share = distance(a, b)
        found.error = max(found.error, share)
        if share > MOST:
            found.verdict, found.reason = DIFFERS, f"output {i} is {share:.2g} of its range off"
            differs = True
    return differs


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference as a share of *b*'s range; infinite where one alone is not a number."""
    if not b.size:
        return 0.0
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    same = (a64 == b64) | (np.isnan(a64) & np.isnan(b64))
    if same.all():
        return 0.0
    if not (np.isfinite(a64) | same).all() or not (np.isfinite(b64) | same).all():
        return float("inf")
    finite = b64[np.isfinite(b64)]
    span = max(float(np.ptp(finite)), float(np.abs(finite).max()), 1e-30)
    return float(np.abs(a64 - b64)[~same].max()) / span


def on_numpy(report: object) -> list[str]:
    """What a library's report says of functions on numpy kernels, those of a virtual machine's parts included."""
    if isinstance(report, list):
        return [shown for part in report for shown in on_numpy(part)]
    found: list[str] = []
    for key, value in report.items() if isinstance(report, dict) else ():
        if key == "host_fallbacks" and isinstance(value, dict):
            found += [f"{name}: {why}" for name, why in value.items()]
        else:
            found += on_numpy(value)
    return found


def sentence(err: BaseException) -> str:
    """An error in one line."""
    return " ".join(str(err).split())[:600]
