"""Who runs a model in ``opencl.py``: ours on the device, and the peers, from numpy to numpy and without copies.

The time without copies is that of a call from Python whose inputs and outputs stay on the device, until all is done
there: ours by ``library.bind``, PyTorch's by a synchronisation behind the work. What our kernels take is in the events
of a queue that profiles, which a library of its own runs with. PyTorch computes under ``no_grad`` with cuDNN's search
for fast convolutions (``cudnn.benchmark``); in f32 its TF32 is off, in tf32 it is on, in fp16 weights and values are
float16 and what comes and goes is float32, as ours.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.engines import Call, Model, Unsupported, run_onnxruntime, run_ours
from benchmarks.opencl.device_cases import Case, torch_module
from byoc.runtime import DeviceError, load
from byoc.runtime.executors.graph_executor import RESHAPE, Graph
from byoc.runtime.library import Library
from byoc.runtime.modules.module import Module
from byoc.runtime.region.device_tensor import DeviceTensor

if TYPE_CHECKING:
    import torch

OURS = "byoc"
GPU_PEERS = ("eager", "graph", "compile")
CPU_PEERS = ("c", "onnxruntime")
WARM_CALLS = 3
KEPT_BUSY = 64  # runs of which the sum of the kernels' times is kept


@dataclass(frozen=True)
class Running:
    """A model that an engine has loaded and run once.

    *run* is from numpy to numpy; *device* is a run once on what lies on the device, where the engine has such;
    *seconds* says what making it ready took, by name; *facts* what else there is to say of it now.
    """

    run: Call
    device: Callable[[], object] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    facts: Callable[[], Mapping[str, object]] = dict


@dataclass(frozen=True)
class Asked:
    """What an engine shall run: a case, its file and inputs, our artefacts (*ours* on the device, *host* in C)."""

    case: Case
    onnx: Path
    inputs: Mapping[str, np.ndarray]
    ours: Path
    host: Path
    precision: str
    threads: int
    compile_mode: str

    def model(self, artefact: Path) -> Model:
        """As the engines of ``cpu.py`` take it."""
        return Model(self.case.name, self.onnx, artefact, self.inputs)

    @functools.cached_property
    def torch(self) -> TorchModel:
        """The module that all of PyTorch's ways share. Raises Absent, Unsupported."""
        return TorchModel(self)


class KernelClock:
    """A library whose OpenCL modules report when their kernels ran."""

    def __init__(self, artefact: Path, inputs: Mapping[str, np.ndarray]):
        self.library = load(artefact)
        self._values = [inputs[spec.name] for spec in self.library.inputs]
        self._modules = [m for m in _tree(self.library.module) if m.type_key == "opencl"]
        self._busy: list[float] = []
        self.launches, self.regions = 0, 0
        for module in self._modules:
            module.profile(True)

    def __call__(self) -> None:
        """Run it once. Raises Unsupported where no kernel runs."""
        self.library(*self._values)
        events = [event for module in self._modules for event in module.profile(True)]
        kernels = [event for event in events if event.sizes]
        if not kernels:
            raise Unsupported("nothing of it runs on the OpenCL device")
        self.launches, self.regions = len(kernels), len({event.symbol for event in kernels})
        self._busy = [*self._busy[1 - KEPT_BUSY :], sum(event.end - event.begin for event in kernels)]

    def facts(self) -> dict[str, object]:
        """Launches of a run, regions, functions of the host, seconds in which kernels ran, fallbacks."""
        symbols = {symbol for module in self._modules for symbol in getattr(module, "symbols", ())}
        calls = [node.function for node in Graph(self.library.graph_json).calls]
        return {
            "launches": self.launches,
            "regions": self.regions,
            "host_functions": sum(f not in symbols and f != RESHAPE for f in calls),
            "kernel_seconds": statistics.median(self._busy) if self._busy else None,
            "fallbacks": [str(f) for f in self.library.fallbacks],
        }


def _tree(module: Module) -> Iterator[Module]:
    yield module
    for below in module.imports:
        yield from _tree(below)


def on_opencl(asked: Asked) -> Running:
    """The artefact on the device, loaded by ``byoc.runtime`` alone."""
    start = time.perf_counter()
    library = load(asked.ours)
    values = [asked.inputs[spec.name] for spec in library.inputs]
    loaded = time.perf_counter()
    library(*values)
    seconds = {"load": loaded - start, "first_run": time.perf_counter() - loaded}
    clock = KernelClock(asked.ours, asked.inputs)
    for _ in range(WARM_CALLS):
        clock()

    def run() -> list[np.ndarray]:
        result = library(*values)
        return list(result) if isinstance(result, list) else [result]

    return Running(run, _on_the_device(library, values), seconds, clock.facts)


def _on_the_device(library: Library, values: Sequence[np.ndarray]) -> Callable[[], object] | None:
    """A run of *library* whose inputs and outputs stay there; None where the host computes what they come from."""
    bound = library.bind([spec.name for spec in library.outputs])
    try:
        there = {spec.name: bound.to_device(value) for spec, value in zip(library.inputs, values, strict=True)}
        kept = all(isinstance(value, DeviceTensor) for value in bound.run(there))
    except DeviceError:
        return None
    return (lambda: bound.run(there)) if kept else None


def in_c(asked: Asked) -> Running:
    """Our C generator with as many threads as the device has."""
    return Running(run_ours(asked.model(asked.host), asked.threads, "f32"))


def by_onnxruntime(asked: Asked) -> Running:
    """ONNX Runtime on as many threads. Raises Unsupported for another precision."""
    if asked.precision != "f32":
        raise Unsupported(f"ONNX Runtime runs an f32 model in f32 on the processor, {asked.precision} is asked for")
    return Running(run_onnxruntime(asked.model(asked.host), asked.threads, "f32"))


class TorchModel:
    """A module of PyTorch on its device in the precision asked for, and its inputs there."""

    def __init__(self, asked: Asked):
        import torch

        start = time.perf_counter()
        self.torch, self.on = torch, "cuda" if torch.cuda.is_available() else "cpu"
        if self.on == "cpu" and asked.precision != "f32":
            raise Unsupported(f"PyTorch has no CUDA device here for {asked.precision}")
        torch.set_num_threads(asked.threads)
        torch.set_float32_matmul_precision("high" if asked.precision == "tf32" else "highest")
        torch.backends.cudnn.allow_tf32 = asked.precision == "tf32"
        torch.backends.cudnn.benchmark = True
        self.is_half = asked.precision == "fp16"
        self._module = torch_module(asked.case).to(self.on)
        if self.is_half:
            self._module = self._module.half()
        self._arrays = list(asked.inputs.values())
        self.inputs = [self.given(a) for a in self._arrays]
        self.load_seconds = time.perf_counter() - start

    def given(self, array: np.ndarray) -> torch.Tensor:
        """An input on the device, in the precision asked for."""
        tensor = self.torch.from_numpy(array).to(self.on)
        return tensor.half() if self.is_half and tensor.is_floating_point() else tensor

    def taken(self, result: torch.Tensor) -> list[np.ndarray]:
        """An output as numpy has it."""
        return [result.float().cpu().numpy()] if result.is_floating_point() else [result.cpu().numpy()]

    def running(self, call: Callable[..., torch.Tensor]) -> Running:
        """*call* with copies and, on a GPU, without."""
        start = time.perf_counter()

        def run() -> list[np.ndarray]:
            with self.torch.no_grad():
                return self.taken(call(*map(self.given, self._arrays)))

        def device() -> None:
            with self.torch.no_grad():
                call(*self.inputs)
            self.torch.cuda.synchronize()

        for _ in range(WARM_CALLS):
            run()
        seconds = {"load": self.load_seconds, "first_run": time.perf_counter() - start}
        return Running(run, device if self.on == "cuda" else None, seconds)

    @property
    def module(self) -> Callable[..., torch.Tensor]:
        """The module itself."""
        return self._module

    def graph(self) -> Running:
        """The module as one CUDA graph. Raises Unsupported without CUDA."""
        torch, start = self.torch, time.perf_counter()
        if self.on != "cuda":
            raise Unsupported("a CUDA graph needs a CUDA device, and PyTorch sees none")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(side):
            for _ in range(WARM_CALLS):
                self._module(*self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        captured = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(captured):
            result = self._module(*self.inputs)

        def run() -> list[np.ndarray]:
            for tensor, array in zip(self.inputs, self._arrays, strict=True):
                tensor.copy_(torch.from_numpy(array))
            captured.replay()
            return self.taken(result)

        def device() -> None:
            captured.replay()
            torch.cuda.synchronize()

        run()
        seconds = {"load": self.load_seconds, "first_run": time.perf_counter() - start}
        return Running(run, device, seconds)


def by_eager(asked: Asked) -> Running:
    """PyTorch, operator by operator."""
    return asked.torch.running(asked.torch.module)


def by_graph(asked: Asked) -> Running:
    """PyTorch's operators, captured as a CUDA graph."""
    return asked.torch.graph()


def by_compile(asked: Asked) -> Running:
    """``torch.compile`` in the mode asked for."""
    model, mode = asked.torch, asked.compile_mode
    return model.running(model.torch.compile(model.module, mode=None if mode == "default" else mode))


ENGINES: Mapping[str, Callable[[Asked], Running]] = {
    OURS: on_opencl,
    "c": in_c,
    "onnxruntime": by_onnxruntime,
    "eager": by_eager,
    "graph": by_graph,
    "compile": by_compile,
}
