"""One stage of ``run.py`` for one model, in a process: ``python -m benchmarks.opencl.device_stage STAGE SPEC.json``.

So a driver that crashes, a device that hangs and memory that is not given back concern one model. What is found goes to
the file ``found`` of the spec as it is found, with what is being done now, for whoever has to end this process.

- ``facts``: the OpenCL device, and what PyTorch sees.
- ``make``: the ONNX file, inputs and expected outputs (ONNX Runtime's in f32, else PyTorch's); fills the cache of
  ``torch.compile``. Models are made side by side.
- ``build``: our artefact for the device, with the seconds, when the outputs right after compiling agree.
- ``host``: the artefact of our C generator, where that is a peer.
- ``time``: all engines in turns, where they agree.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.engines import Unsupported, random_inputs, relative_difference, run_onnxruntime
from benchmarks.opencl.device_cases import CPU_CASES, GPU_CASES, Absent, case_of, onnx_file, torch_module
from benchmarks.opencl.device_engines import CPU_PEERS, ENGINES, GPU_PEERS, OURS, Asked, KernelClock, Running
from benchmarks.rounds import Schedule, interleave

TOLERANCE = {"f32": 1e-4, "tf32": 2e-2, "fp16": 2e-2}  # of the range of the expected output
MESSAGE = 300  # characters shown of what somebody says
WITHOUT = "without copies"
EXPECTED = "expected.npz"
SLOWEST = 20  # kernels of a profile


class Found:
    """What a stage has found so far, in a file that is whole at any time."""

    def __init__(self, path: Path):
        self._path = path
        self.data: dict[str, object] = {}

    def doing(self, what: str) -> None:
        """Say what comes next."""
        self.add(doing=what)

    def add(self, **more: object) -> None:
        """Keep *more*, by name."""
        self.data.update(more)
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(self.data), encoding="utf-8")
        part.replace(self._path)


@dataclass(frozen=True)
class Spec:
    """What a stage is asked for: the options of ``opencl.py``, a model, and where files go.

    *onnx*, *expected* and *reference* are what ``make`` found, empty before; *options* are those of ``byoc.compile``.
    """

    found: str
    scratch: str = ""
    case: str = ""
    models: str = ""
    onnx: str = ""
    expected: str = ""
    reference: str = ""
    peers: tuple[str, ...] = ()
    precision: str = "f32"
    threads: int = 1
    compile_mode: str = "default"
    rounds: int = 1
    turn_seconds: float = 0.1
    profile: bool = False
    options: Mapping[str, object] = field(default_factory=dict)


class Stage:
    """A stage with what it is asked for."""

    def __init__(self, spec: Spec):
        self.spec, self.peers, self.precision = spec, spec.peers, spec.precision
        self.found, self.scratch = Found(Path(spec.found)), Path(spec.scratch)

    def asked(self, onnx: Path) -> Asked:
        """What engines shall run."""
        spec, ours, host = self.spec, self.scratch / "ours.byoc", self.scratch / "host.byoc"
        inputs = random_inputs(onnx)
        return Asked(case_of(spec.case), onnx, inputs, ours, host, spec.precision, spec.threads, spec.compile_mode)

    def facts(self) -> None:
        """The device that runs OpenCL here, and what is measured on such a one unless the user says."""
        from byoc.runtime.opencl.devices import open_device

        info = open_device().info
        cuda = ""
        if info.kind == "gpu" and importlib.util.find_spec("torch") is not None:
            import torch

            cuda = f"PyTorch {torch.__version__} on {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
        self.found.add(
            device=str(info),
            kind=info.kind,
            torch=cuda,
            peers=GPU_PEERS if cuda else CPU_PEERS,
            cases=CPU_CASES if info.kind == "cpu" else GPU_CASES,
        )

    def make(self) -> None:
        """The ONNX file with what it should give. Raises Absent."""
        case, given = case_of(self.spec.case), self.spec.models
        self.found.doing("making the ONNX file")
        start = time.perf_counter()
        path = onnx_file(case, Path(given) if given else None, self.scratch)
        self.found.add(onnx=str(path), make_seconds=time.perf_counter() - start, doing="computing what it should give")
        asked = self.asked(path)
        if importlib.util.find_spec("onnxruntime") is not None:
            call = run_onnxruntime(asked.model(path), self.spec.threads, "f32")
            expected, reference = list(call()), "ONNX Runtime"
        else:
            import torch

            module = torch_module(case)
            with torch.no_grad():
                expected, reference = [module(*map(torch.from_numpy, asked.inputs.values())).numpy()], "PyTorch"
        np.savez(self.scratch / EXPECTED, *expected)
        self.found.add(reference=reference, expected=str(self.scratch / EXPECTED))
        if "compile" in self.peers and case.has_module:
            self.found.doing("filling the cache of torch.compile")
            try:
                ENGINES["compile"](asked)
            except Exception as error:  # it is reported when its turn comes
                self.found.add(compile_cache=said(error))

    def build(self) -> None:
        """Our artefact. Raises what compiling raises, Unsupported for other outputs than those expected."""
        import byoc

        asked, options = self.asked(Path(self.spec.onnx)), dict(self.spec.options)
        if self.precision == "tf32":  # an option of the device's products alone
            given = options.get("backend_options", {})
            options["backend_options"] = {**given, "opencl": {**given.get("opencl", {}), "products": "tf32"}}
        elif self.precision != "f32":
            options["precision"] = self.precision
        self.found.doing("compiling for OpenCL")
        start = time.perf_counter()
        library = byoc.compile(asked.onnx, targets=["opencl"], **options)
        compiled = time.perf_counter()
        self.found.add(compile_seconds=compiled - start, doing="the first run, which builds the kernels")
        outputs = library.run(asked.inputs)
        self.found.add(first_run_seconds=time.perf_counter() - compiled)
        difference = self.difference(outputs)
        if not difference <= TOLERANCE[self.precision]:
            raise Unsupported(self.disagrees(difference))
        library.save(asked.ours)

    def host(self) -> None:
        """The artefact of our C generator. Raises Unsupported for another precision, what compiling raises."""
        import byoc

        if self.precision != "f32":
            raise Unsupported(f"the C generator has its turn in f32 alone, {self.precision} is asked for")
        self.found.doing("compiling in C")
        asked = self.asked(Path(self.spec.onnx))
        byoc.compile(asked.onnx, targets=["c"]).save(asked.host)

    def time(self) -> None:
        """Seconds of each engine that agrees, in turns; why the others have none."""
        asked = self.asked(Path(self.spec.onnx))
        ready: dict[str, Running] = {}
        differences: dict[str, float] = {}
        failures: dict[str, str] = {}
        artefacts = {OURS: asked.ours, "c": asked.host}  # one that is not there has its sentence
        wanted = [name for name in (OURS, *self.peers) if name not in artefacts or artefacts[name].is_file()]
        for name in wanted:
            self.found.doing(f"loading it by {name}")
            try:
                running = ENGINES[name](asked)
                differences[name] = self.difference(running.run())
                if not differences[name] <= TOLERANCE[self.precision]:
                    raise Unsupported(self.disagrees(differences[name]))
            except Exception as error:  # whatever an engine raises for a model
                failures[name] = said(error)
            else:
                ready[name] = running
            self.found.add(differences=differences, failures=failures)
        self.found.doing("timing all in turns")
        calls: dict[str, Callable[[], object]] = {name: r.run for name, r in ready.items()}
        calls |= {f"{name} {WITHOUT}": r.device for name, r in ready.items() if r.device is not None}
        timings = interleave(calls, Schedule(self.spec.rounds, self.spec.turn_seconds))
        self.found.add(
            timings={name: timing.to_json() for name, timing in timings.items()},
            engines={name: {"seconds": dict(r.seconds), **r.facts()} for name, r in ready.items()},
            doing="",
        )
        if self.spec.profile and OURS in ready:
            self.found.doing("profiling")
            library = KernelClock(asked.ours, asked.inputs).library
            self.found.add(profile=library.profile(asked.inputs, repeat=5).table("kernel", SLOWEST), doing="")

    def difference(self, outputs: Sequence[np.ndarray]) -> float:
        """Of *outputs* from those expected, relative to their range."""
        with np.load(self.spec.expected) as expected:
            return relative_difference(outputs, [expected[name] for name in expected.files])

    def disagrees(self, difference: float) -> str:
        """The sentence for outputs that are not those expected."""
        most = TOLERANCE[self.precision]
        of = f"{self.spec.reference}'s in f32"
        return f"its outputs differ from {of} by {difference:.2g} of their range, more than {most:g}"


def said(error: Exception) -> str:
    """What *error* says, in one line; our own say it without their class."""
    text = " ".join(str(error).split())[:MESSAGE]
    return text if isinstance(error, (Absent, Unsupported)) else f"{type(error).__name__}: {text}"


def main() -> int:
    """Do a stage; 1, with a sentence in the file, where it fails."""
    stage = Stage(Spec(**json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))))
    steps: Mapping[str, Callable[[], None]] = {
        "facts": stage.facts,
        "make": stage.make,
        "build": stage.build,
        "host": stage.host,
        "time": stage.time,
    }
    try:
        steps[sys.argv[1]]()
    except Exception as error:  # whatever a model, a driver or a compiler raises: this is where it is reported
        stage.found.add(failure=said(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
