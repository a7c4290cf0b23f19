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
    ("opencl", "json", "c"),
    ("blas", "opencl", "c"),
    ("c", "json", "c"),
    ("json", "opencl", "blas", "c"),
    ("blas", "json", "c"),
    ("c", "opencl", "c"),
)
EXECUTORS = ("aot", "aot", "aot", "graph", "vm")
KERNEL_PACKAGES = {"blas": "byoc.contrib.blas"}


@dataclass(frozen=True)
class Narrowing:
    """What a lower precision may do to each value that a product reads: round it where it is made, for all its readers.

    An element may change by *relative* of itself and by *absolute* of the value's largest magnitude.
    """

    relative: float = 0.0
    absolute: float = 0.0


# bfloat16 has 8 bits, the leading one counted: to nearest, half a unit in the last place is at most 2**-8 of a number.
# A step of int8 is at most the largest magnitude over 127 (weights: -127 to 127; others: 255 steps from the least to
# the greatest number), and half a step is lost. Sums of products are those of the model's own types.
NARROWINGS = {"f32": None, "bf16": Narrowing(relative=2.0**-8), "int8": Narrowing(absolute=1 / 254)}


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
        return ":".join(
            (
                self.backend,
                "+".join(self.targets),
                self.policy,
                self.precision,
                self.executor,
                str(self.threads),
                "saved" if self.saved else "here",
            )
        )

    @property
    def kernel_packages(self) -> tuple[str, ...]:
        """What a process that loads the artefact imports beside the runtime: packages that register kernels."""
        return tuple(KERNEL_PACKAGES[t] for t in self.targets if t in KERNEL_PACKAGES)

    @property
    def narrowing(self) -> Narrowing | None:
        """The errors that the precision allows in what products read, or None."""
        return NARROWINGS[self.precision]


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
        configuration,
        executor=executor,
        threads=rng.choice((1, 1, 2, 4)),
        saved=executor != "vm" and rng.random() < 0.4,
    )
