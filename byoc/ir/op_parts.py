"""What belongs together in the declaration of an operator (``byoc.ir.op.register_op``), where more than one is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from byoc.ir.types import Type

A_contra = TypeVar("A_contra", contravariant=True)  # the attributes of one operator
R_contra = TypeVar("R_contra", bound=Type, contravariant=True)  # the type of its result
E = TypeVar("E")  # byoc.te.Tensor, which this layer does not import


@dataclass(frozen=True)
class Inputs(Generic[A_contra]):
    """The inputs of an operator.

    Attributes:
        names: of each, in their order.
        infer: what untyped inputs must be, given the others (a weight from its data): (types of the inputs, None where
            unknown; type of the result or None; attributes) -> the types with what follows.
        variadic: a call may have fewer or more of them.
    """

    names: Sequence[str]
    infer: Callable[[Sequence[Type | None], Type | None, A_contra], Sequence[Type | None]] | None = None
    variadic: bool = False


@dataclass(frozen=True)
class Implementation(Generic[A_contra, E, R_contra]):
    """What computes an operator: generated code, and the numpy kernel where there is none.

    Attributes:
        compute: the tensor expression: (attributes, input tensors with tuples flattened, type of the result) -> output
            tensors; None where no code can be generated.
        code_for: for which dtypes *compute* holds, where type relations take more, as Relay's do: (dtypes of the input
            tensors, attributes) -> whether; calls of others run on the kernel. None where it holds for all.
        kernel: the kernel's name in ``byoc.runtime.kernels``; None is the operator's own.
    """

    compute: Callable[[A_contra, Sequence[E], R_contra], Sequence[E]] | None = None
    code_for: Callable[[Sequence[str], A_contra], bool] | None = None
    kernel: str | None = None


@dataclass(frozen=True)
class OpArgument:
    """What is known of one input of an operator. Source: ``Op.arguments``."""

    name: str
    type_info: str = "Tensor"
    description: str = ""
