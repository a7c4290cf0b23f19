"""Every tile of products on this machine's GPU: ``python -m benchmarks.opencl.tiles`` (``--formats tf32,float16``).

From its figures the paces in ``codegen/opencl/products`` are taken: microseconds of a kernel by the device's events, of
products and convolutions of real networks, the tile of each format forced; checked against float64 before. With
PyTorch on CUDA its own time (TF32 where the format allows it) stands beside. Kernels are built in several processes;
one at a time measures. ``--json FILE`` keeps the figures; ``--fit`` prints the paces that explain them best.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

Case = tuple[str, tuple[int, ...]]
MM = [(128, 768, 768), (128, 768, 2304), (128, 768, 3072), (128, 3072, 768), (197, 768, 2304), (197, 768, 3072)]
MM += [(33, 80, 77), (1024, 768, 768), (1024, 768, 2304), (1024, 768, 3072), (1024, 3072, 768), (4096, 4096, 4096)]
CONV = [
    (2, 24, 9, 40, 3),
    (1, 64, 56, 64, 3),
    (1, 128, 28, 128, 3),
    (1, 256, 14, 256, 3),
    (1, 512, 7, 512, 3),
    (1, 256, 56, 64, 1),
]
CONV += [(1, 64, 56, 256, 1), (1, 512, 28, 128, 1), (1, 1024, 14, 256, 1), (1, 512, 7, 2048, 1), (32, 64, 56, 64, 3)]
CONV += [(32, 128, 28, 128, 3), (32, 256, 14, 256, 3), (32, 512, 7, 512, 3), (32, 256, 56, 64, 1), (32, 64, 56, 256, 1)]
CONV += [(32, 1024, 14, 256, 1), (32, 2048, 7, 512, 1), (1, 3, 224, 64, 7)]
CASES: list[Case] = [*(("matmul", c) for c in MM), *(("conv", c) for c in CONV)]
ERRORS = {"float32": 2e-5, "tf32": 3e-3, "3xtf32": 1e-4, "bfloat16": 2e-2, "float16": 4e-3}
FLUSH = 256 << 20  # bytes that are written so that caches have nothing else
LAUNCH = 2.0  # microseconds that an event takes beside the kernel
LOCK = "/tmp/byoc_tiles.lock"
GRID = [0.05 * 1.07**n for n in range(60)]  # paces that are tried first
CHANGES = (0.7, 0.8, 0.87, 0.93, 0.96, 1.04, 1.08, 1.15, 1.25, 1.4)  # then these of each, in so many rounds
ROUNDS = 6


def arrays(case: Case, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """The input and the weights of *case*."""
    kind, s = case
    rng = np.random.default_rng(sum(s))
    if kind == "matmul":
        x, w = rng.standard_normal(s[:2]), rng.standard_normal((s[2], s[1])) / math.sqrt(s[1])
    else:
        n, c, size, o, k = s
        x, w = rng.standard_normal((n, c, size, size)), rng.standard_normal((o, c, k, k)) / math.sqrt(c * k * k)
    return x.astype(dtype), w.astype(dtype)


def program_of(case: Case, format: str) -> Any:
    """The Program of *case*, prepared for a device, with its weights as a constant."""
    from byoc import relay
    from byoc.codegen.kernel.lower import lower_function
    from byoc.codegen.kernel.region import fuse_body

    dtype = "float16" if format == "float16" else "float32"
    x, w = arrays(case, dtype)
    var = relay.var("x", shape=x.shape, dtype=dtype)
    if case[0] == "matmul":
        body = relay.nn.dense(var, relay.const(w), out_dtype="float32")
    else:
        pad, stride = case[1][4] // 2, 2 if case[1][4] == 7 else 1
        body = relay.nn.conv2d(
            var,
            relay.const(w),
            padding=(pad, pad),
            strides=(stride, stride),
            kernel_size=w.shape[2:],
            channels=w.shape[0],
            out_dtype="float32",
        )
    function = relay.Function([var], body)
    typed = relay.transform.InferType()(relay.IRModule.from_expr(function))["main"]
    return lower_function(fuse_body(typed), "f")


def reference(case: Case, dtype: str) -> np.ndarray:
    """What *case* is, in float64."""
    x, w = arrays(case, dtype)
    if case[0] == "matmul":
        return x.astype("float64") @ w.astype("float64").T
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.from_numpy(v.astype("float64")).to(device) for v in (x, w))
    stride = 2 if w.shape[2] == 7 else 1
    with torch.backends.cudnn.flags(enabled=False):
        return torch.nn.functional.conv2d(a, b, padding=w.shape[2] // 2, stride=stride).cpu().numpy()


def torch_seconds(case: Case, format: str) -> float | None:
    """PyTorch's time for *case* on CUDA, from a graph of ten."""
    import torch

    if not torch.cuda.is_available():
        return None
    allowed = format in ("tf32", "bfloat16")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cudnn.benchmark = True
    x, w = (torch.from_numpy(v).cuda() for v in arrays(case, "float16" if format == "float16" else "float32"))
    F = torch.nn.functional

    def run() -> Any:
        if case[0] == "matmul":
            return F.linear(x, w)
        return F.conv2d(x, w, padding=w.shape[2] // 2, stride=2 if w.shape[2] == 7 else 1)

    for _ in range(3):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            run()
    times = []
    for _ in range(12):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e4)
    return statistics.median(times)


def variants(found: Any, asked: Mapping[str, Any]) -> list[Any]:
    """*found* with as many steps ahead, and words of a lane, as are *asked* for."""
    made = []
    for candidate in found:
        for ahead in asked["ahead"] or [candidate.tile.ahead]:
            tile = replace(candidate.tile, ahead=ahead)
            name = "words" if hasattr(tile, "words") else "points"
            for number in asked[name] or [getattr(tile, name)]:
                made.append(replace(candidate, tile=replace(tile, **{name: number})))
    return [c for c in {c.tile.name: c for c in made}.values() if c.tile.local_bytes(4) <= 48 << 10]


def measure(task: tuple[Case, str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every tile of one case in one format."""
    case, format, asked = task
    bench = TileBench(case, format)
    made = list(bench.built(asked))
    with open(LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        beside = torch_seconds(case, format)
        bench.fill()
        for row in made:
            if "built" in row:
                row |= {**bench.timed(*row.pop("built"), asked), "torch": beside}
    return made


class TileBench:
    """One case in one format on the device of this process."""

    def __init__(self, case: Case, format: str):
        import pyopencl

        from byoc.codegen.c.winograd.options import WinogradOptions
        from byoc.codegen.opencl.device.profile import profile_of
        from byoc.codegen.opencl.emit import prepare
        from byoc.runtime.opencl.devices import open_device

        self.cl, self.opened = pyopencl, open_device()
        self.case, self.format, self.halves = case, format, format == "float16"
        wanted = "" if format in ("float32", "float16") else format
        profile = replace(profile_of(self.opened.info), products=wanted)
        self.profile = replace(profile, matrix_units="") if format == "float32" else profile
        self.program = prepare(program_of(case, format), self.profile, self.halves, winograd=WinogradOptions(()))
        dtype = "float16" if self.halves else "float32"
        self.expected, (self.input, _) = reference(case, dtype), arrays(case, dtype)
        properties = self.cl.command_queue_properties.PROFILING_ENABLE
        self.queue = self.cl.CommandQueue(self.opened.context, properties=properties)

    def built(self, asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """A row for each tile, with its program, or with why there is none."""
        from byoc.codegen.opencl import schedule
        from byoc.codegen.opencl.device.choosing import Chooser
        from byoc.codegen.opencl.emit import emit_prepared
        from byoc.codegen.opencl.products import candidates, split
        from byoc.runtime.opencl.build import build_trial

        every, tiles, chosen = candidates.candidates, dict[str, Any](), ""

        def all_of(p: Any, profile: Any, parts: Any = (1,)) -> list[Any]:
            found = every(p, profile)
            kind = "product" if self.format == "float32" else "matrix"
            if not tiles:
                tiles.update({c.tile.name: c for c in variants([c for c in found if c.choice.kind == kind], asked)})
            return [tiles[chosen]] if chosen in tiles else found

        schedule.candidates = split.candidates = all_of
        emit_prepared([self.program], Chooser(self.profile), self.halves)
        for name in list(tiles):
            chosen = name
            source, (plan,) = emit_prepared([self.program], Chooser(self.profile), self.halves)
            row = {"case": self.case, "format": self.format, "tile": name}
            try:
                yield {**row, "built": (build_trial(source, self.opened), plan, tiles[name].tile)}
            except Exception as error:
                yield {**row, "failed": str(error)[-300:]}

    def fill(self) -> None:
        """The buffers: the input, the weights, the result, and what empties the caches."""
        arrays = [self.input, *(np.asarray(data.numpy(), order="C") for _, data in self.program.constants)]
        sizes = [*(a.nbytes for a in arrays), self.expected.size * 4, FLUSH]
        flags = self.cl.mem_flags.READ_WRITE
        *self.buffers, self.flush = (self.cl.Buffer(self.opened.context, flags, n) for n in sizes)
        for buffer, array in zip(self.buffers, arrays, strict=False):
            self.cl.enqueue_copy(self.queue, buffer, array)

    def timed(self, built: Any, plan: Any, tile: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The median of the kernel's times, and how far its result is off, from memory full of NaN."""
        (launch,) = plan.launches
        (variant,) = launch.variants
        size, local = variant.shape({}, self.opened.info.max_work_group_size)
        kernel = getattr(built, variant.kernel)
        kernel.set_args(*(self.buffers[b] for b in launch.buffers), *(np.int64(0) for _ in plan.placed(launch)))
        self.cl.enqueue_copy(self.queue, self.buffers[-1], np.full(self.expected.size, np.nan, "float32"))
        times = []
        for _ in range(asked["rounds"]):
            if asked["cold"]:
                self.cl.enqueue_fill_buffer(self.queue, self.flush, np.uint32(0), 0, FLUSH)
            event = self.cl.enqueue_nd_range_kernel(self.queue, kernel, (size,), (local,))
            event.wait()
            times.append(1e-9 * (event.profile.end - event.profile.start))
        out = np.empty(self.expected.shape, "float32")
        self.cl.enqueue_copy(self.queue, out, self.buffers[-1])
        self.queue.finish()
        error = float(np.abs(out - self.expected).max() / np.abs(self.expected).max())
        found = {"error": error, "seconds": statistics.median(times[3:]), "units": self.opened.info.units}
        return {**found, "rows": tile.rows, "columns": tile.columns, "points": tile.points}


def sizes(case: Case) -> tuple[int, int, int]:
    """Rows, columns and terms."""
    kind, s = case
    if kind == "matmul":
        return s[0], s[2], s[1]
    n, c, size, o, k = s
    out = size // 2 if k == 7 else size
    return o, n * out * out, c * k * k


def main() -> int:
    """Measure, print a table, and say whether all agreed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--formats", default="tf32,float16,3xtf32")
    parser.add_argument("--jobs", type=int, default=max((os.cpu_count() or 2) - 2, 1))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cases whose text has this")
    parser.add_argument("--ahead", type=int, nargs="*", default=[], help="try so many steps ahead, not each tile's own")
    parser.add_argument("--words", type=int, nargs="*", default=[], help="try so many words of a lane in a step")
    parser.add_argument(
        "--points", type=int, nargs="*", default=[], help="likewise terms, of tiles without matrix units"
    )
    parser.add_argument("--cold", action="store_true", help="with nothing of the operands in the device's cache")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--fit", action="store_true", help="print the paces for the tables of codegen/opencl/products")
    parser.add_argument("--measured", type=Path, help="the file of an earlier --json, in the place of measuring")
    asked = parser.parse_args()
    if asked.measured:
        fit(json.loads(asked.measured.read_text(encoding="utf-8")))
        return 0
    cases = [c for c in CASES if asked.only in f"{c[0]}{c[1]}"]
    numbers = {
        "rounds": asked.rounds,
        "ahead": asked.ahead,
        "words": asked.words,
        "points": asked.points,
        "cold": asked.cold,
    }
    tasks = [(case, format, numbers) for format in asked.formats.split(",") for case in cases]
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(asked.jobs) as pool:
        for found in pool.map(measure, tasks):
            rows += found
            show(found)
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    wrong = [r for r in rows if "failed" in r or not r["error"] <= ERRORS[r["format"]]]
    for r in wrong:
        print("WRONG", r["format"], r["case"], r["tile"], r.get("failed", r.get("error")))
    if asked.fit:
        fit(rows)
    return int(bool(wrong))


def show(found: list[dict[str, Any]]) -> None:
    """One line for a case in a format."""
    good = sorted((r for r in found if "seconds" in r), key=lambda r: r["seconds"])
    if not good:
        return
    m, n, k = sizes(good[0]["case"])
    rate = 2e-12 * m * n * k / good[0]["seconds"]
    beside = good[0]["torch"]
    ratio = "" if beside is None else f"torch {1e6 * beside:.1f} us, {beside / good[0]['seconds']:.2f} of its speed; "
    best = ", ".join(f"{r['tile']} {1e6 * r['seconds']:.1f}" for r in good)
    print(
        f"{good[0]['format']} {good[0]['case'][0]}{good[0]['case'][1]} {rate:.1f} TFLOP/s; {ratio}us: {best}",
        flush=True,
    )


def fit(rows: list[dict[str, Any]]) -> None:
    """The paces that a format's tiles are best chosen by, from least squares of logarithms over a grid."""
    timed = [r for r in rows if "seconds" in r]
    for name in dict.fromkeys(r["format"] for r in timed):
        chosen = Paces([r for r in timed if r["format"] == name])
        chosen.refine()
        for tile, (alone, busy) in chosen.paces.items():
            print(f"pace {name} {tile}: alone {max(alone, busy):.3f}, busy {busy:.3f}")
        _, lost, error = chosen.score()
        print(f"paces of {name}: the tiles that they choose take {lost:.3f} longer than the best; off by {error:.3f}")


@dataclass(frozen=True)
class Shape:
    """A tile's sizes."""

    rows: int
    columns: int
    points: int


class Paces:
    """Microseconds of a step, alone and busy, of each tile of one format that was timed."""

    def __init__(self, rows: list[dict[str, Any]]):
        self.cases: dict[str, dict[str, dict[str, Any]]] = {}
        for r in rows:
            self.cases.setdefault(str(r["case"]), {})[r["tile"]] = {**r, "us": 1e6 * r["seconds"], "steps": steps_of(r)}
        self.paces: dict[str, list[float]] = {}
        for tile in dict.fromkeys(r["tile"] for r in rows):
            own = [case[tile] for case in self.cases.values() if tile in case]
            tried = ([a, b] for a in GRID for b in GRID if b <= 3 * a)
            self.paces[tile] = min(tried, key=lambda pace: sum(error_of(r, pace) ** 2 for r in own))

    def score(self) -> tuple[float, float, float]:
        """What is to be small: the mean logarithm of what choosing loses, and half the squared errors of good tiles."""
        lost, error, weight = 0.0, 0.0, 0.0
        for own in self.cases.values():
            least = min(r["us"] for r in own.values())
            errors = {tile: error_of(row, self.paces[tile]) for tile, row in own.items()}
            chosen = min(own, key=lambda tile: math.exp(errors[tile]) * own[tile]["us"])
            lost += math.log(own[chosen]["us"] / least) / len(self.cases)
            for tile, row in own.items():
                share = (least / row["us"]) ** 2
                error, weight = error + share * errors[tile] ** 2, weight + share
        return lost + 0.5 * error / weight, lost, error / weight

    def refine(self) -> None:
        """Change one pace at a time as long as that helps: the paces of the best fit do not choose best."""
        best = self.score()[0]
        for _ in range(ROUNDS):
            for pace in self.paces.values():
                for k in (0, 1):
                    begin = pace[k]
                    for change in CHANGES:
                        before, pace[k] = pace[k], round(begin * change, 3)
                        now = self.score()[0]
                        if now < best - 1e-6:
                            best = now
                        else:
                            pace[k] = before


def steps_of(row: Mapping[str, Any]) -> tuple[float, float]:
    """By what the two paces of a timed tile are multiplied, of which the larger product counts."""
    from byoc.codegen.opencl.products.tile import Pace, cost_of

    shape, size = Shape(row["rows"], row["columns"], row["points"]), (1, *sizes(row["case"]))
    alone, busy = (cost_of(size, shape, pace, 1, row["units"]) for pace in (Pace(1.0, 0.0), Pace(0.0, 1.0)))
    return alone, busy


def error_of(row: Mapping[str, Any], pace: Sequence[float]) -> float:
    """The logarithm of how far the model is off, with what an event takes."""
    alone, busy = row["steps"]
    return math.log((max(alone * pace[0], busy * pace[1]) + LAUNCH) / row["us"])


if __name__ == "__main__":
    raise SystemExit(main())
