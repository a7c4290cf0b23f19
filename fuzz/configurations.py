"""Ways to compile and run a model: targets, policy, precision, executor, threads, and whether it is saved in between.

Every model goes through each of ``BACKENDS`` once and through one mixture; what else there is to choose is drawn by the
model's seed, so that each backend meets each choice.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

BACKENDS = ("c", "json", "opencl", "blas")
MIXTURES = (
    ("opencl", "json", "c"), ("blas", "opencl", "c"), ("c", "json", "c"), ("json", "opencl", "blas", "c"),
    ("blas", "json", "c"), ("c", "opencl", "c"),
)
EXECUTORS = ("aot", "aot", "aot", "graph", "vm")
KERNEL_PACKAGES = {"blas": "byoc.contrib.blas"}
# relative rounding of operands that a precision allows itself
ROUNDING = {"f32": None, "bf16": 2.0**-8, "int8": 2.0**-6}


@dataclass(frozen=True)
class Configuration:
    """One way; its name says all of it, and :func:`configuration_of` reads it back."""

    backend: str  # whose count it is: one of BACKENDS, "mixture" or "precision"
    targets: tuple[str, ...]
    policy: str = "order"
    precision: str = "f32"
    executor: str = "aot"
    threads: int = 1
    saved: bool = False

    @property
    def name(self) -> str:
        """As ``mixture:opencl+json+c:cost:f32:aot:4:saved``."""
        return ":".join((
            self.backend, "+".join(self.targets), self.policy, self.precision, self.executor, str(self.threads),
            "saved" if self.saved else "here",
        ))

    @property
    def kernel_packages(self) -> tuple[str, ...]:
        """What a process that loads the artefact imports beside the runtime: packages that register kernels."""
        return tuple(KERNEL_PACKAGES[t] for t in self.targets if t in KERNEL_PACKAGES)

    @property
    def rounding(self) -> float | None:
        """The relative error that the precision allows in operands, or None."""
        return ROUNDING[self.precision]


def configuration_of(name: str) -> Configuration:
    """The configuration that is called so. Raises ValueError for a name of another form."""
    backend, targets, policy, precision, executor, threads, where = name.split(":")
    return Configuration(
        backend, tuple(targets.split("+")), policy, precision, executor, int(threads), where == "saved"
    )


def alone(backend: str) -> Configuration:
    """The plainest configuration of a backend: what it takes on it, the rest on the host."""
    return Configuration(backend, ("c",) if backend == "c" else (backend, "c"))


def drawn(backends: Sequence[str], rng: random.Random) -> list[Configuration]:
    """What a model is run under: each of *backends* once, a mixture of them, now and then a lower precision."""
    found = [varied(alone(backend), rng) for backend in backends]
    mixtures = [m for m in MIXTURES if set(m) <= {*backends, "c"}]
    if mixtures:
        mixed = Configuration("mixture", rng.choice(mixtures), rng.choice(("order", "cost", "score")))
        found.append(varied(mixed, rng))
    if "c" in backends and rng.random() < 0.25:
        narrow = Configuration("precision", ("c",), precision=rng.choice(("bf16", "bf16", "int8")))
        found.append(varied(narrow, rng))
    return found


def varied(configuration: Configuration, rng: random.Random) -> Configuration:
    """*configuration* with executor, threads and saving drawn."""
    executor = rng.choice(EXECUTORS)
    if executor == "vm" and configuration.precision == "int8":
        executor = "aot"  # the machine has no int8, and says so
    return replace(
        configuration, executor=executor, threads=rng.choice((1, 1, 2, 4)),
        saved=executor != "vm" and rng.random() < 0.4,
    )
