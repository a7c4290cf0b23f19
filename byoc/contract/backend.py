"""The vendor's contract: a Backend says what it can do and why not, and compiles what it was given.

Two ways in, one contract. Natively: subclass :class:`Backend` and register it with :func:`register_backend` (or by an
entry point of the group ``byoc.backends``). As for TVM's Relay: ``register_pattern_table``,
``register_op_attr("nn.conv2d", "target.acme")`` and ``register_func("relay.ext.acme")``; :func:`get_backend` adapts
such an integration. Each native backend is also found as ``relay.ext.<name>``.

A constraint is a function of a call with a docstring that says what is supported; it returns None where the call
satisfies it, and else the value that it found. The same docstring documents the backend (``support_table.py``) and
explains a refusal (``verdict.py``). In ``Backend.constraints`` it is asked about operators and composites, as the check
of a pattern about matches; with ``of`` it is about certain operators, wherever they stand::

    @constraint("dtype")
    def floats_only(call):
        \"\"\"float32 only\"\"\"
        return None if call.checked_type.dtype == "float32" else call.checked_type.dtype

    @constraint("kernel", of="nn.conv2d")
    def small_kernel(call):
        \"\"\"kernel at most 7\"\"\"
        return next((k for k in call.attrs.kernel_size if k > 7), None)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from byoc.contract.limits import Limits
from byoc.contract.verdict import (
    Constraint,
    ConstraintCheck,
    Verdict,
    as_constraint,
    check_is_of_call,
    judge,
    place_of,
)
from byoc.errors import CompileError, InternalError, UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.relay.expr import Call, Function
from byoc.relay.traverse import post_order
from byoc.runtime.core.device import HardwareLevel
from byoc.runtime.core.ndarray import NDArray, from_any
from byoc.runtime.modules.module import Module

if TYPE_CHECKING:
    from byoc.contract.deviation import Deviation
    from byoc.contract.quantized import Quantized
    from byoc.relay.dataflow_pattern import DFPattern

Check = Callable[[RelayExpr], object]


@dataclass(frozen=True)
class PatternEntry:
    """A row of a pattern table: the composite's name (``acme.conv2d_relu``), the pattern, and a check of the match.

    The check is a function of the match's root, or a constraint or a sequence of them, which are asked about the
    composite that the match would become and kept as one :class:`ConstraintCheck`; a match that they refuse is reported
    with its reasons. A function with a docstring among them is a constraint of its own name. Raises PartitionError for
    one without, and for a function that makes constraints.
    """

    name: str
    pattern: DFPattern
    check: Check | Sequence[Constraint] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.check, Constraint):
            object.__setattr__(self, "check", ConstraintCheck((self.check,)))
        elif isinstance(self.check, Sequence):
            checks = tuple(as_constraint(c, f"the pattern {self.name}: check[{k}]") for k, c in enumerate(self.check))
            object.__setattr__(self, "check", ConstraintCheck(checks) if checks else None)
        elif self.check is not None:
            check_is_of_call(self.check, f"the pattern {self.name}: its check")

    @property
    def asked(self) -> Check | None:
        """The check as matches are asked: constraints are one :class:`ConstraintCheck`."""
        assert not isinstance(self.check, Sequence)  # since __post_init__
        return self.check


class Backend:
    """What brings an accelerator: subclass it, set ``name``, and give at least ``compile``, and ``constraints`` or
    ``supports``.

    ``options`` are the names of those that ``compile`` knows; others are then refused. With None it is given any.

    All methods are called on the caller's thread while a model is planned and compiled, one call after the other:
    ``patterns`` and ``supports`` as often as a plan wants, then for each region ``optimize`` (of the plan, and of the
    cut) and once ``compile``, which may run on a thread of its own where ``compile_timeout`` bounds it. A backend keeps
    nothing of the functions that it is given. What it raises is reported with backend, region and nodes; with
    ``fallback=True`` the host computes that region. The module that it returns says how it runs: see
    ``byoc.runtime.Module`` and its ``thread_safe``. The whole contract is one page: ``docs/guides/contract.md``.
    ``small_dtypes`` are the element types of 8 bits and less that it takes beside int8, uint8 and bool: ``int4``,
    ``float8_e4m3fn``, ... What neither they nor a constraint ``dtypes(...)`` names it is not asked about.
    ``quantized`` says on which integers it computes, where it does: what a model quantizes then reaches it as operators
    of ``relay.qnn``, and ``precision="int8"`` quantizes the rest for it. ``deviations`` are the corners in which its
    results may be other numbers (``byoc.contract.NAN_LOST``). ``precisions_inside`` are those of its ``places`` to
    which a region is brought when it is compiled, with float32 at its border; to others casts bring its inputs.
    ``needs_sizes`` says that its code is over sizes by name: a region inside of which stands one that neither its
    inputs nor its outputs determine is given an input of the model that does.
    """

    name: str = ""
    constraints: Sequence[Constraint] = ()
    limits: Limits = Limits()
    devices: Sequence[str] = ("cpu",)
    options: Sequence[str] | None = None
    quantized: Quantized | None = None
    deviations: Sequence[Deviation] = ()
    precisions_inside: Sequence[str] = ()
    small_dtypes: Sequence[str] = ()
    needs_sizes: bool = False

    def patterns(self) -> Sequence[PatternEntry]:
        """The pattern table in order of preference: groups of operators that become one composite function."""
        return ()

    def supports(self, call: Call) -> Verdict:
        """Whether this backend takes *call*: of an operator, or of a composite of its own pattern table.

        Where every one of ``constraints`` holds, unless a backend says otherwise.
        """
        if not self.constraints:
            raise NotImplementedError(f"backend {self.name} has neither constraints nor supports")
        return judge(call, self.constraints)

    def named_operators(self) -> Iterable[tuple[str, str]]:
        """Operators and composites that it speaks of beside its constraints, as for kernels: each name, and what speaks
        of it.

        When it is used, a name that is neither an operator's nor one of its patterns' is an error.
        """
        return ()

    def named_attributes(self) -> Iterable[tuple[str, str, str]]:
        """Attributes by which its kernels compute: of each the operator, the attribute, and what names it.

        When it is used, one that the operator does not have is an error: the kernel would compute by its own default.
        """
        return ()

    def places(self) -> Sequence[str]:
        """Where this backend has kernels, as ``target/precision/layout/device`` with itself as the target.

        For each call that ``supports`` accepts there is one at each of these places; ``any`` takes tensors as they
        come. Policy ``score`` chooses among them.
        """
        return (f"{self.name}/any/any",)

    def why_not_at(self, place: str) -> str | None:
        """Why there is no kernel at *place*, which names this target: a clause; None where nothing more is known."""
        return None

    def options_at(self, places: Sequence[str], options: Mapping[str, object]) -> Mapping[str, object]:
        """*options* for regions whose calls were given *places*, those of ``places`` that the user asked for.

        Raises UserError where the user's options contradict them.
        """
        return options

    def seconds(self, call: Call) -> float | None:
        """What *call*, of an operator or a composite, takes on this backend, where its vendor knows; else None.

        Policy ``cost`` believes it, unless the user gives costs of his own or has them measured.
        """
        return None

    def check_options(self, options: Mapping[str, object]) -> None:
        """Raises UserError for a value that one of ``options`` does not have; asked before the model is read.

        ``compile`` is given the same *options*, and may refuse them in the same words.
        """

    def tuning_level(self, options: Mapping[str, object]) -> str | None:
        """The level of tuning that *options* ask for, one of ``byoc.compile``'s ``tune``; None where they say nothing.

        A backend that tunes declares the option ``tune``, with which ``compile`` is given the tuner.
        """
        return None

    def why_not_in(self, precision: str, options: Mapping[str, object]) -> str | None:
        """Why its regions do not compute in *precision* (``"fp16"``) under its *options*, in words; None where they do.

        It is asked where ``byoc.compile`` is given such a precision. Regions then have products on float16 with results
        in float32, casts around them, and borders in the types of the model.
        """
        return f"backend {self.name} computes in the types that it is given"

    def unavailable(self) -> str | None:
        """One sentence when the backend cannot work on this machine (a missing package or device), else None."""
        return None

    def level(self) -> HardwareLevel:
        """How far its regions get on this machine: compiled and no more, run emulated, or run on the device.

        Whether a region that it compiled can run is asked of the region's module, when it is to run (``Module.level``).
        """
        return HardwareLevel.REAL if self.unavailable() is None else HardwareLevel.UNAVAILABLE

    def device_kind(self) -> str | None:
        """What kind of device stands behind this backend here: ``cpu``, ``gpu``, ``accelerator``, ...; None if unknown.

        Costs that ask no machine depend on it (``byoc.partition.costs.register_profile``).
        """
        return None

    def device_name(self, options: Mapping[str, object]) -> str | None:
        """The device on which its regions run here under its *options*, and its driver: what a certificate names.

        ``"NVIDIA H200, driver 550.54.15"``; None where that is the host's processor, or nobody knows.
        """
        return None

    def optimize(self, region: Function) -> Function:
        """A last change to a region before it is compiled (``relay.ext.<name>.optimize``)."""
        return region

    def compile(self, function: Function, options: Mapping[str, object]) -> Module:
        """Turn a region into a runtime module with a function of the region's ``global_symbol``.

        *function* carries ``Compiler`` and ``global_symbol``; its constants are in its body. Raises CompileError.
        """
        raise NotImplementedError


def constants_by_symbol(module: Module) -> Mapping[str, Sequence[str]]:
    """The names of the constants that each symbol of *module* needs. Raises CompileError for other things."""
    needed: object = module.constants()
    where = f"constants() of its module for {', '.join(module.symbols)}"
    expected = 'expected the names of the constants by symbol, as in {symbol: ["weight"]}'
    if not isinstance(needed, Mapping) or not all(isinstance(names, (list, tuple)) for names in needed.values()):
        raise CompileError(f"{where} gave {needed!r}, {expected}")
    strange = next((symbol for symbol in needed if symbol not in module.symbols), None)
    if strange is not None:
        raise CompileError(f"{where} names the symbol {strange!r}, which is none of its own, {expected}")
    return needed


def constant_arrays_of(module: Module) -> dict[str, NDArray]:
    """The constants that *module* gives, in C order, numpy's arrays as ours. Raises UserError for what is no array."""
    given: Mapping[str, object] = module.constant_arrays
    return {name: _constant(f"the constant {name!r} of the module for", value, module) for name, value in given.items()}


def keep_constants(module: Module, arrays: Mapping[str, NDArray]) -> None:
    """Have *module* give *arrays*. Raises UserError where it gives others, by a property that cannot be set."""
    given = module.constant_arrays
    if given.keys() == arrays.keys() and all(given[name] is array for name, array in arrays.items()):
        return
    try:
        module.constant_arrays = arrays
    except AttributeError:
        raise UserError(
            f"constant_arrays of {type(module).__name__} cannot be set, expected an attribute of the module, as in "
            "self.constant_arrays = {name: array}, and no property"
        ) from None


def _constant(what: str, value: object, module: Module) -> NDArray:
    where = f"{what} {', '.join(module.symbols)}"
    if not isinstance(value, (np.ndarray, NDArray)):
        raise UserError(f"{where} is a {type(value).__name__}, expected an array of byoc or numpy")
    array = np.asarray(from_any(value), order="C")
    strange = [v for v in array.flat if not isinstance(v, (str, bytes))] if array.dtype.hasobject else []
    if strange:
        raise UserError(
            f"{where} has a {type(strange[0]).__name__} among its elements, expected numbers, or texts alone"
        )
    return value if isinstance(value, NDArray) and value.numpy() is array else NDArray(array)


def contradiction(backend: Backend, region: Function, refusal: str) -> InternalError | CompileError:
    """The error for a region that *backend* took by its verdicts and its code generator then refused, in words.

    Verdicts and code generator answer by one table of constraints, so that this is a mistake in one of both: an
    InternalError where the backend is byoc's own, else a CompileError, for its vendor.
    """
    operators = dict.fromkeys(
        place_of(n) for n in post_order(region.body) if isinstance(n, Call) and isinstance(n.op, Op)
    )
    table = ", ".join(c.code for c in backend.constraints) or "none: its verdicts come from supports()"
    kind = InternalError if type(backend).__module__.startswith("byoc.") else CompileError
    return kind(
        f"backend {backend.name!r} accepted {'; '.join(operators)}, and its code generator refuses it: {refusal}; "
        f"the constraints that accepted it ({table}) must say so when asked"
    )
