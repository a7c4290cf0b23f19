"""Our OpenCL code against the peers of its device: ``python -m benchmarks.opencl`` (``--only resnet18,bert``).

On a GPU that PyTorch reaches by CUDA the peers are PyTorch eager, as a CUDA graph and by ``torch.compile``; elsewhere
(PoCL) they are our C generator and ONNX Runtime on as many threads. Models are made here with random weights
(``device_cases.py``), or taken from ``--models FOLDER``; nothing is fetched. Outputs are compared with ONNX Runtime's
in f32 (PyTorch's without it) before anything is timed: right after compiling, then of the saved artefact in a new
process, which is the one that is timed, in turns with the peers (``rounds.py``). Printed are the median and the
quartiles of each from numpy to numpy, and without copies where the device reports its times (``device_engines.py``);
our speed as a multiple of the best peer's; launches of a run and the time in kernels; what compiling, the first run,
and loading and the first run in a new process took. Each model has processes of its own and ``--seconds`` for each; one
that fails says so in a sentence, and the others go on. The status is 1 when ours failed on a model. Times are of this
machine as it is: measure on an idle one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.opencl.device_engines import CPU_PEERS, GPU_PEERS, OURS
from benchmarks.opencl.device_stage import TOLERANCE, WITHOUT, Spec

PEERS = (*CPU_PEERS, *GPU_PEERS)
FACTS_SECONDS = 120
NONE = "-"
CACHES = {"BYOC_CACHE_DIR": "byoc", "POCL_CACHE_DIR": "pocl", "CUDA_CACHE_PATH": "cuda"}
POCL_THREADS = ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT")  # of version 3, of later ones
SHARED = ("OMP_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS")  # by models that are made at the same time


@dataclass
class Result:
    """What the stages of one model in a precision found, put together; *failures* by who failed, with the sentence."""

    case: str
    precision: str
    found: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def median(self, name: str) -> float | None:
        """Seconds of an engine, or of one without copies; None where it has no figure."""
        timing = self.found.get("timings", {}).get(name)
        return None if timing is None else float(timing["median"])

    def best(self, suffix: str = "") -> tuple[str, float] | None:
        """The fastest peer that agrees, with its seconds."""
        found = [(name, s) for name in self.found.get("engines", {}) if (s := self.median(name + suffix)) is not None]
        return min((item for item in found if item[0] != OURS), key=lambda item: item[1], default=None)

    def ratio(self, suffix: str = "") -> float | None:
        """Our speed as a multiple of the best peer's."""
        ours, best = self.median(OURS + suffix), self.best(suffix)
        return None if ours is None or best is None else best[1] / ours

    def to_json(self) -> dict[str, object]:
        """All of it, with the ratios."""
        ratios = {"numpy_to_numpy": self.ratio(), "without_copies": self.ratio(f" {WITHOUT}")}
        own = {"case": self.case, "precision": self.precision}
        return {**own, "ratio_to_best": ratios, "failures": self.failures, **self.found}


class Benchmark:
    """One run over the models, with the folder in which its processes leave what they find."""

    def __init__(self, options: argparse.Namespace, scratch: Path):
        self.options, self.scratch = options, scratch
        self.environment = {**os.environ, **dict.fromkeys(POCL_THREADS, str(options.threads))}
        caches = options.cache or scratch / "cache"
        self.environment |= {name: str(caches / folder) for name, folder in CACHES.items()}
        if options.device is not None:
            self.environment["BYOC_OPENCL_DEVICE"] = options.device
        self.results: list[Result] = []

    def run(self) -> Mapping[str, Any]:
        """Measure every model, printing as it goes; what the device is. Raises SystemExit without one."""
        facts = self.stage("facts", Spec(str(self.scratch / "found.json"), str(self.scratch)), FACTS_SECONDS)
        if "failure" in facts:
            raise SystemExit(f"there is nothing to measure on: {facts['failure']}")
        peers = tuple(facts["peers"] if self.options.peers is None else self.options.peers)
        unknown = [name for name in peers if name not in PEERS]
        if unknown:
            raise SystemExit(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
        print(f"OpenCL {facts['device']}" + (f"; {facts['torch']}" if facts["torch"] else ""), flush=True)
        cases = [self.spec(name, peers) for name in self.options.only or facts["cases"]]
        made = self.beside(self.options.jobs, "make", cases)
        specs = [self.ready(spec, found, p) for spec, found in zip(cases, made, strict=True) for p in self.precisions]
        whole = [spec for spec in specs if spec.onnx]
        builds = self.beside(self.options.builds, "build", whole)
        built = {spec.scratch: found for spec, found in zip(whole, builds, strict=True)}
        for spec, found in zip(specs, (m for m in made for _ in self.precisions), strict=True):
            result = self.measure(spec, found, built.get(spec.scratch))
            self.results.append(result)
            print("\n".join(lines(result)), flush=True)
        print("\n".join(summary(self.results)))
        return {"device": facts["device"], "torch": facts["torch"]}

    @property
    def precisions(self) -> tuple[str, ...]:
        """What the models are measured in, one after another."""
        return tuple(self.options.precision)

    def beside(self, jobs: int, stage: str, specs: Sequence[Spec]) -> list[dict[str, Any]]:
        """What a stage found for each of *specs*, of which so many *jobs* are at it at the same time."""
        jobs = max(1, min(jobs, len(specs)))
        share = max(1, self.options.threads // jobs)
        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(lambda spec: self.stage(stage, replace(spec, threads=share)), specs))

    def ready(self, spec: Spec, made: Mapping[str, Any], precision: str) -> Spec:
        """*spec* for a precision, in a folder of its own, with what ``make`` found."""
        folder = self.scratch / f"{spec.case}_{precision}"
        folder.mkdir()
        own = replace(spec, found=str(folder / "found.json"), scratch=str(folder), precision=precision)
        if "failure" in made:
            return own
        return replace(own, onnx=made["onnx"], expected=made["expected"], reference=made["reference"])

    def spec(self, case: str, peers: tuple[str, ...]) -> Spec:
        """What making a model is asked for."""
        folder = self.scratch / case
        folder.mkdir()
        options = self.options
        return Spec(
            found=str(folder / "found.json"),
            scratch=str(folder),
            case=case,
            models=str(options.models or ""),
            peers=peers,
            precision=self.precisions[0],
            threads=options.threads,
            compile_mode=options.compile_mode,
            rounds=options.rounds,
            turn_seconds=options.turn_seconds,
            profile=options.profile,
            options=dict(options.set),
        )

    def measure(self, spec: Spec, made: Mapping[str, Any], built: dict[str, Any] | None) -> Result:
        """Time one model of which ``make`` and ``build`` found what they did."""
        result = Result(spec.case, spec.precision, {k: v for k, v in made.items() if k != "failure"})
        if built is None:
            result.failures["model"] = made["failure"]
            return result
        for stage, whose in {"build": OURS, "host": "c", "time": "time"}.items():
            if stage == "host" and whose not in spec.peers:
                continue
            found = built if stage == "build" else self.stage(stage, spec)
            failure = found.pop("failure", None)
            result.failures.update(found.pop("failures", {}))
            result.found.update(found)
            if failure is not None:
                result.failures[whose] = failure
        return result

    def stage(self, stage: str, spec: Spec, seconds: float | None = None) -> dict[str, Any]:
        """What a stage found, with ``failure`` where it did not come to its end."""
        limit = self.options.seconds if seconds is None else seconds
        out, asked, log = Path(spec.found), *(Path(spec.scratch) / f"{stage}.{kind}" for kind in ("json", "log"))
        out.unlink(missing_ok=True)
        asked.write_text(json.dumps(asdict(spec)), encoding="utf-8")
        command = [sys.executable, "-m", "benchmarks.opencl.device_stage", stage, str(asked)]
        environment = {**self.environment, **dict.fromkeys(SHARED, str(spec.threads))}
        with log.open("w", encoding="utf-8") as file:
            child = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
            try:
                status, ended = child.wait(limit), ""
            except subprocess.TimeoutExpired:
                status, ended = 1, f"took more than {limit:g} s"
            finally:
                end(child)
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {}
        doing = found.pop("doing", "") or "starting"
        if status and "failure" not in found:
            last = (log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or [""])[-1]
            found["failure"] = f"{ended or f'the process ended with status {status}'} while {doing}: {last}"
        return found


def end(child: subprocess.Popen[bytes]) -> None:
    """End a process that is still there, and those that it started."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def lines(result: Result) -> list[str]:
    """One model: a line for each engine, then what is ours alone."""
    found, rest = result.found, f" {WITHOUT}"
    text = [f"{result.case} in {result.precision}:"]
    for name in found.get("engines", {}):
        with_copies, without = (_milliseconds(found["timings"].get(name + suffix)) for suffix in ("", rest))
        copies = f"{with_copies:>30}{without:>32}"
        text.append(f"  {name:<12}{copies}  differs {found['differences'][name]:.0e}")
    for suffix, words in (("", "from numpy to numpy"), (rest, WITHOUT)):
        best, ratio = result.best(suffix), result.ratio(suffix)
        if best is not None and ratio is not None:
            text.append(f"  {words} {ratio:.2f} times the speed of the best peer, {best[0]}")
    ours = found.get("engines", {}).get(OURS)
    if ours is not None:
        text += _ours(found, ours)
    text += [f"  {name}: {reason}" for name, reason in result.failures.items()]
    return [*text, *([found["profile"]] if "profile" in found else [])]


def _ours(found: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    seconds = ours["seconds"]
    return [
        f"  {ours['launches']} launches in {ours['regions']} regions, {1e3 * ours['kernel_seconds']:.3f} ms in "
        f"kernels, {ours['host_functions']} functions on the host",
        f"  compiled in {found['compile_seconds']:.2f} s, first run {found['first_run_seconds']:.2f} s; a new process: "
        f"loaded in {seconds['load']:.2f} s, first run {seconds['first_run']:.2f} s",
        *(f"  on the host instead: {fallback}" for fallback in ours["fallbacks"]),
    ]


def summary(results: Sequence[Result]) -> list[str]:
    """A table in Markdown: a row for each model."""
    rows = [
        "| model | precision | ours ms | best peer ms | times its speed | without copies | times its speed | launches |"
    ]
    rows.append("|---|---|--:|--:|--:|--:|--:|--:|")
    rest = f" {WITHOUT}"
    for result in results:
        engines = result.found.get("engines", {})
        pair = f"{_median(result.median(OURS + rest))} / {_named(result.best(rest))}"
        launches = engines[OURS]["launches"] if OURS in engines else NONE
        cells = [
            result.case,
            result.precision,
            _median(result.median(OURS)),
            _named(result.best()),
            _ratio(result.ratio()),
            pair,
            _ratio(result.ratio(rest)),
            str(launches),
        ]
        rows.append("| " + " | ".join(cells) + " |")
    return ["", *rows]


def _median(seconds: float | None) -> str:
    return NONE if seconds is None else f"{1e3 * seconds:.3f}"


def _named(best: tuple[str, float] | None) -> str:
    return NONE if best is None else f"{1e3 * best[1]:.3f} ({best[0]})"


def _ratio(ratio: float | None) -> str:
    return NONE if ratio is None else f"{ratio:.2f}"


def _milliseconds(timing: Mapping[str, float] | None) -> str:
    if timing is None:
        return NONE
    return f"{1e3 * timing['median']:.3f} ({1e3 * timing['lower']:.3f}-{1e3 * timing['upper']:.3f})"


def parser() -> argparse.ArgumentParser:
    """The options."""
    cores = len(os.sched_getaffinity(0))
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--only", type=_names, help="by commas: resnet50_b32 (a batch), product4096, a file's name")
    made.add_argument("--models", type=Path, help="a folder of ONNX files, which stand before what would be made")
    made.add_argument("--peers", type=_names, help="of c, onnxruntime, eager, graph, compile (default: by the device)")
    made.add_argument(
        "--precision", type=_precisions, default=["f32"], help="what both sides compute in: f32,tf32,fp16"
    )
    made.add_argument("--device", help="the OpenCL device: its index or a part of its name (BYOC_OPENCL_DEVICE)")
    made.add_argument("--threads", type=int, default=cores, help="of PoCL, C, ONNX Runtime (default: the cores)")
    made.add_argument(
        "--set", type=_option, action="append", default=[], metavar="NAME=VALUE", help="an option of byoc.compile"
    )
    made.add_argument("--compile-mode", default="reduce-overhead", help="of torch.compile")
    made.add_argument("--rounds", type=int, default=5, help="turns of each engine")
    made.add_argument("--turn-seconds", type=float, default=0.15, help="what a turn should take")
    made.add_argument("--seconds", type=float, default=300.0, help="what a stage of a model may take")
    made.add_argument("--jobs", type=int, default=max(1, cores // 2), help="models that are made at the same time")
    made.add_argument("--builds", type=int, default=1, help="models that we build at the same time, each more slowly")
    made.add_argument("--cache", type=Path, help="a folder for compiled kernels (default: one that is empty)")
    made.add_argument("--profile", action="store_true", help="print our slowest kernels of each model")
    made.add_argument("--json", type=Path, help="write all that was found here")
    return made


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _precisions(text: str) -> list[str]:
    found = _names(text)
    if not found or not set(found) <= set(TOLERANCE):
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(TOLERANCE)} by commas, got {text!r}")
    return found


def _option(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def main() -> int:
    """Run what the options ask for; 1 when ours failed on a model."""
    options = parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="byoc_opencl_") as folder:
        benchmark = Benchmark(options, Path(folder))
        facts = benchmark.run()
    if options.json is not None:
        found = {**facts, "cases": [r.to_json() for r in benchmark.results]}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(any(OURS not in result.found.get("engines", {}) for result in benchmark.results))


if __name__ == "__main__":
    sys.exit(main())
