"""Registering operators by TVM's calls. Source: ``relay.op.op``."""

from __future__ import annotations

from collections.abc import Callable

from byoc.errors import RegistryError
from byoc.ir.op import OPS, Op, OpPattern, register_op_attr


def register(op_name: str, describe: str = "") -> Op:
    """Make an operator that has only a name; its type relation is given by ``add_type_rel``-like registrations.

    Raises RegistryError when the name is taken. Source: ``relay.op.register``.
    """
    if op_name in OPS:
        raise RegistryError(f"operator {op_name!r} is registered already, at {OPS.place(op_name)}")
    op = Op(op_name)
    op.description = describe
    OPS.register(op_name, op)
    return op


def register_pattern(op_name: str, pattern: int | OpPattern, level: int = 10) -> object:
    """Say how an operator may be fused. Source: ``relay.op.register_pattern``."""
    result = register_op_attr(op_name, "TOpPattern", int(pattern), level)
    OPS[op_name].pattern = OpPattern(pattern)
    return result


def register_stateful(op_name: str, stateful: bool, level: int = 10) -> object:
    """Say whether an operator has a state, so that no pass removes or joins its calls."""
    return register_op_attr(op_name, "TOpIsStateful", stateful, level)


Legalizer = Callable[..., object]


def register_legalize(op_name: str, legal_op: Legalizer | None = None, level: int = 10) -> object:
    """Keep a function under ``FTVMLegalize``. Source: ``relay.op.register_legalize``."""
    return register_op_attr(op_name, "FTVMLegalize", legal_op, level)


def register_alter_op_layout(op_name: str, alter_layout: Legalizer | None = None, level: int = 10) -> object:
    """Keep a function under ``FTVMAlterOpLayout``. Source: ``relay.op.register_alter_op_layout``."""
    return register_op_attr(op_name, "FTVMAlterOpLayout", alter_layout, level)


def register_convert_op_layout(op_name: str, convert_layout: Legalizer | None = None, level: int = 10) -> object:
    """Keep a function under ``FTVMConvertOpLayout``. Source: ``relay.op.register_convert_op_layout``."""
    return register_op_attr(op_name, "FTVMConvertOpLayout", convert_layout, level)
