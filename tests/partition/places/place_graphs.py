"""Small registries and graphs that the tests of places share."""

from __future__ import annotations

import random
from dataclasses import replace

from byoc.partition.place import HOST, DataLayout, Precision
from byoc.partition.places.graph import Operator, PlacedTensor, PlaceGraph
from byoc.partition.places.kernel import register_kernel
from byoc.partition.places.tensor_type import TensorTy

AT_HOME = TensorTy(HOST, Precision.FLOAT, DataLayout.NCHW)

DOCUMENTED_KERNELS = (
    "arm/int8/NCHW",
    "arm/float/NCHW",
    "arm/float/NHWC",
    "opencl/float/NCHW",
    "opencl/float/ImageDefault",
)
DOCUMENTED_PLACES = (
    "opencl/fp16/ImageDefault",
    "opencl/float/NCHW",
    "opencl/any/ImageDefault",
    "opencl/any/NCHW",
    "arm",
)


def register_conv2d(registry, place, alias="def"):
    builder = register_kernel("conv2d", place, alias, registry=registry)
    return builder.bind_input("Input").bind_input("Filter").bind_input("Bias").bind_output("Output").finalize()


def unary(registry, op, place, **types):
    """A kernel of one input X and one output Out, of the types given, else of its place."""
    builder = register_kernel(op, place, registry=registry)
    return builder.bind_input("X", types.get("x")).bind_output("Out", types.get("out")).finalize()


def chain(kernels, inputs=None, results=True):
    """Operators one after another, each with its kernel; tensor n goes into operator n."""
    tensors = tuple(PlacedTensor(f"t{n}", shape=(1, 2, 3, 4)) for n in range(len(kernels) + 1))
    operators = tuple(Operator(k.op, (("X", n),), (("Out", n + 1),), f"op{n}", kernel=k) for n, k in enumerate(kernels))
    ends = ((len(kernels), AT_HOME),) if results else ()
    return PlaceGraph(tensors, operators, inputs or {}, ends)


def fan(source, readers):
    """An operator with kernel *source* whose result every kernel of *readers* reads; no results."""
    tensors = tuple(PlacedTensor(f"t{n}", shape=(1, 2, 3, 4)) for n in range(len(readers) + 2))
    first = Operator(source.op, (("X", 0),), (("Out", 1),), "source", kernel=source)
    rest = tuple(Operator(k.op, (("X", 1),), (("Out", n + 2),), f"reader{n}", kernel=k) for n, k in enumerate(readers))
    return PlaceGraph(tensors, (first, *rest), {0: replace(source.input_type("X"))})


def random_graph(rng: random.Random, kernels, size: int) -> PlaceGraph:
    """A graph of *size* operators of one or two inputs, its weights and its inputs, with kernels chosen at random."""
    tensors = [PlacedTensor("same", shape=(1, 2, 3, 4), constant=n < 2) for n in range(4)]
    operators = []
    for n in range(size):
        kernel = rng.choice(kernels)
        reads = [rng.randrange(max(0, len(tensors) - 6), len(tensors)) for _ in range(rng.choice((1, 1, 2)))]
        operators.append(
            Operator(
                kernel.op,
                tuple(("XY"[k], t) for k, t in enumerate(reads)),
                (("Out", len(tensors)),),
                f"op{n}",
                kernel=kernel,
            )
        )
        tensors.append(PlacedTensor("same", shape=(1, 2, 3, 4)))  # names repeat on purpose
    read = {t for o in operators for _, t in o.inputs}
    results = tuple((t, AT_HOME) for t in range(4, len(tensors)) if t not in read)
    return PlaceGraph(tuple(tensors), tuple(operators), {}, results)
