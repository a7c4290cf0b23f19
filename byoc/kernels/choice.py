"""Which declared kernel computes a call: those that fit its types, attributes and constraints, then the best of them.

Of kernels that fit equally well in precision and layout the fastest is taken where all of them say what a call takes
(``seconds``), else the one with the highest grade (``places/grade.py``), else the first that was declared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass

from byoc.codegen.c.region_source import C_TYPES
from byoc.codegen.json.kernel_attributes import asked_attributes, lost_attributes
from byoc.codegen.opencl.device.language import TYPES as OPENCL_TYPES
from byoc.contract.checks import pattern_entries
from byoc.contract.region_steps import input_forms, inputs_given
from byoc.contract.registration import BACKENDS
from byoc.contract.signature import spec_of
from byoc.contract.verdict import Reason, callee_name, calls_in, judge
from byoc.errors import CompileError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OPS, Op
from byoc.ir.types import TensorType, tensor_types
from byoc.kernels.macros import named_in, numbered, read_attributes
from byoc.partition.place import ANY, FLOATS, DataLayout, Precision, precision_of
from byoc.partition.places.grade import KernelArgument, KernelRequest
from byoc.partition.places.kernel import Kernel
from byoc.partition.places.libraries import KernelLibrary, runnable
from byoc.partition.places.pick import pick_kernel
from byoc.partition.places.source import CSource, OpenCLSource
from byoc.relay.dataflow_pattern import DFPattern
from byoc.relay.expr import Call, Function
from byoc.runtime.core.bound_sizes import is_computable
from byoc.runtime.json.table import reference_attributes, table_of_kernels

_TYPES = {CSource: C_TYPES, OpenCLSource: OPENCL_TYPES}
Form = tuple[Precision, DataLayout]
LAYOUTS = ("data_layout", "layout")  # the attributes that say where the axes of a call's data lie


def fitting(call: Call, target: str, narrow: bool = True) -> list[Kernel]:
    """The kernels of *target* that may compute the typed *call*, one for each precision and layout in which they do;
    with *narrow* those too that compute in a float with fewer bits, where casts would stand around them.
    """
    found: dict[Form, list[Kernel]] = {}
    for kernel in _declared(call, target):
        if not refusals(kernel, call, narrow):
            found.setdefault(_form(kernel, call), []).append(kernel)
    return [_best(call, kernels) for kernels in found.values()]


def chosen(call: Call, target: str) -> Kernel | None:
    """The kernel of *target* that computes *call* as it is; else one in a wider float, with conversions around it."""
    found = fitting(call, target, narrow=False)
    exact = [k for k in found if _is_exact(k, call)]
    return _best(call, exact or found) if found else None


def why_not(call: Call, target: str) -> list[Reason]:
    """Why no kernel of *target* takes *call*."""
    kernels = _declared(call, target)
    if kernels:
        return [reason for kernel in kernels for reason in refusals(kernel, call)]
    known = ", ".join(dict.fromkeys(k.op for k in runnable(target)))
    return [Reason("operator", f"{target} has kernels for {known or 'nothing'}", callee_name(call))]


def refusals(kernel: Kernel, call: Call, narrow: bool = False) -> list[Reason]:
    """Why *kernel* does not compute the typed *call*; nothing where it does, with *narrow* in fewer bits."""
    inputs, outputs = _inputs(call, kernel), tensor_types(call.checked_type)
    reasons = []
    wanted = _arity(kernel)
    if wanted not in (None, len(inputs)):
        reasons.append(Reason("inputs", f"{kernel} takes {wanted} inputs", str(len(inputs))))
    else:
        others: dict[tuple[Precision, str], list[str]] = {}
        for types, declared, what in ((inputs, kernel.inputs, "input"), (outputs, kernel.outputs, "output")):
            for k, (ty, precision) in enumerate(zip(types, _precisions(kernel, declared, len(types)), strict=True)):
                if not _takes(kernel, precision, ty.dtype, narrow):
                    others.setdefault((precision, ty.dtype), []).append(f"{what} {k}")
        for (precision, dtype), places in others.items():
            reasons.append(Reason("dtype", f"{kernel} has {precision} for its {', '.join(places)}", dtype))
    reasons += _layout_refusals(kernel, call) + _attribute_refusals(kernel, call)
    if isinstance(kernel.run, (CSource, OpenCLSource)):
        reasons += _source_refusals(kernel, inputs, outputs)
    return reasons or list(judge(call, kernel.constraints).reasons)


def _declared(call: Call, target: str) -> list[Kernel]:
    return [k for k in runnable(target) if k.op == callee_name(call)]


def _arity(kernel: Kernel) -> int | None:
    """How many arrays *kernel* takes; None where that is not known."""
    if kernel.inputs or not callable(kernel.run):
        return len(kernel.inputs) or None
    return table_of_kernels(kernel.place.target).arity(str(kernel))


def count_given(kernel: Kernel, call: Call) -> int | None:
    """How many tensors *kernel* is given of what a composite reads at several places: as many as it takes. Source that
    does not say how many has a name for each place.
    """
    wanted = _arity(kernel)
    return max(map(len, _input_types(call))) if wanted is None and not callable(kernel.run) else wanted


def _inputs(call: Call, kernel: Kernel | None = None) -> list[TensorType]:
    """What a kernel is given: the arguments of *call*, and the constants that the pattern of a composite matched."""
    count = None if kernel is None else count_given(kernel, call)
    return [t for value in inputs_given(call, count) for t in tensor_types(value.checked_type)]


def _input_types(call: Call) -> list[list[TensorType]]:
    return [[t for value in form for t in tensor_types(value.checked_type)] for form in input_forms(call)]


def _precisions(kernel: Kernel, declared: object, count: int) -> list[Precision]:
    names = list(declared) if isinstance(declared, dict) else []
    if not names:
        return [Precision(kernel.place.precision)] * count
    types = [(kernel.inputs if declared is kernel.inputs else kernel.outputs)[name] for name in names]
    return [Precision(t.precision) for t in types][:count] + [Precision.ANY] * (count - len(types))


def _takes(kernel: Kernel, precision: Precision, dtype: str, narrow: bool) -> bool:
    given = precision_of(dtype)
    if precision in (given, Precision.ANY):
        return True
    converts = callable(kernel.run) and precision in FLOATS and given in FLOATS
    return converts and (narrow or FLOATS[precision] > FLOATS[given])


def _is_exact(kernel: Kernel, call: Call) -> bool:
    inputs = _inputs(call, kernel)
    asked = _precisions(kernel, kernel.inputs, len(inputs))
    return all(p in (precision_of(t.dtype), Precision.ANY) for p, t in zip(asked, inputs, strict=True))


def _form(kernel: Kernel, call: Call) -> Form:
    """In which precision and layout *kernel* computes *call*: those of the call where it takes any."""
    floats = [p for t in _inputs(call) if (p := precision_of(t.dtype)) in FLOATS]
    precision = Precision(kernel.place.precision)
    layout = DataLayout(kernel.place.layout)
    return (
        (floats[0] if floats else Precision.ANY) if precision == Precision.ANY or not floats else precision,
        DataLayout.NCHW if layout == DataLayout.ANY else layout,
    )


def _best(call: Call, kernels: Sequence[Kernel]) -> Kernel:
    if len(kernels) == 1:
        return kernels[0]
    estimates = [k.seconds(call) for k in kernels if k.seconds is not None]
    if len(estimates) == len(kernels):
        return min(zip(estimates, range(len(kernels)), kernels, strict=True))[2]
    arguments = tuple(KernelArgument(f"in{k}", precision_of(t.dtype)) for k, t in enumerate(_inputs(call)))
    places = tuple(dict.fromkeys(k.place for k in kernels))
    return pick_kernel(KernelRequest(callee_name(call), arguments), kernels, places, first_wish=False).kernel


def _layout_refusals(kernel: Kernel, call: Call) -> list[Reason]:
    if kernel.place.layout == ANY:
        return []
    for attrs in _attributes(call):
        layout = getattr(attrs, "data_layout", None) or getattr(attrs, "layout", None)
        if isinstance(layout, str) and layout and layout != str(kernel.place.layout):
            return [Reason("layout", f"{kernel} has layout {kernel.place.layout}", layout)]
    return []


def _attributes(call: Call) -> list[Attrs | None]:
    return [inner.attrs for inner in (calls_in(call) if isinstance(call.op, Function) else (call,))]


def unknown_attributes(kernel: Kernel) -> list[str]:
    """The attributes that *kernel*, of an operator, looks at and that this operator does not have."""
    op = OPS[kernel.op]
    known = set(reference_attributes(op.kernel))
    if op.attrs_type is not None and is_dataclass(op.attrs_type):
        known.update(f.name for f in fields(op.attrs_type))
    if isinstance(kernel.run, (CSource, OpenCLSource)):
        return [n for n in named_in(kernel.run.text) if n not in known and numbered(n) not in known]
    return [n for n in table_of_kernels(kernel.place.target)[str(kernel)].attributes if n not in known]


def said_attributes(target: str, call: Call) -> Mapping[str, object] | None:
    """What the backend *target* says that its kernel of a composite gets; None where it says nothing of *call*.

    Raises CompileError where it gives something else.
    """
    backend = BACKENDS.get(target)
    if not isinstance(call.op, Function) or not isinstance(backend, KernelLibrary):
        return None
    said: object = backend.composite_attributes(call.op)
    if said is not None and not isinstance(said, Mapping):
        raise CompileError(
            f"backend {target!r}: its composite_attributes gave {said!r}, expected a mapping of names to values, or "
            "None"
        )
    return said


def given_attributes(kernel: Kernel, call: Call) -> list[tuple[str, object]]:
    """The attributes of *call* that stand before the source of *kernel*, by name: what its backend says of a composite,
    else those of the operators in it, in their order.
    """
    said = said_attributes(kernel.place.target, call)
    if said is not None:
        return list(said.items())
    return [item for attrs in _attributes(call) if attrs is not None for item in attrs.items()]


def _attribute_refusals(kernel: Kernel, call: Call) -> list[Reason]:
    """Attributes that mean something and that the kernel does not look at, or that it would not be given."""
    run, required = kernel.run, frozenset[str]()
    if isinstance(run, (CSource, OpenCLSource)):
        declared = read_attributes(run.text)
    else:
        function = table_of_kernels(kernel.place.target)[str(kernel)]
        if function.takes_all:
            return []
        declared, required = frozenset(function.attributes), function.required
    said = said_attributes(kernel.place.target, call)
    if said is not None:
        return _said_refusals(kernel, said, declared) + _lacking(kernel, said, required)
    operators = [inner for inner in calls_in(call) if isinstance(inner.op, Op)]
    lost = [found for inner in operators for found in lost_attributes(inner, declared)]
    if lost and not isinstance(call.op, Op):
        pattern = _unchecked_pattern(kernel.place.target, callee_name(call))
        # a check, or whoever made the composite, says which attributes it has
        asked = dict(lost) if pattern is None else asked_attributes(pattern)
        lost = [(name, value) for name, value in lost if name not in asked]
    unknown = [
        Reason("attribute", f"{kernel} knows nothing of {name}: {_how(kernel, name)}, or refuse it", repr(value))
        for name, value in lost
        if not (
            name in LAYOUTS and kernel.place.layout != ANY and value == str(kernel.place.layout)
        )  # its place says it
    ]
    if isinstance(call.op, Op):
        return unknown
    names = {name for inner in operators if inner.attrs is not None for name, _ in inner.attrs.items()}
    return unknown + _ambiguities(kernel, operators, declared) + _lacking(kernel, names, required)


def _how(kernel: Kernel, name: str) -> str:
    source = isinstance(kernel.run, (CSource, OpenCLSource))
    return f"name ATTR_{name} in its text" if source else f"declare it (*, {name}: ...)"


def _ambiguities(kernel: Kernel, operators: Sequence[Call], declared: Collection[str]) -> list[Reason]:
    """Attributes that *kernel* looks at, and that several operators of a composite have with different values."""
    values: dict[str, list[object]] = {}
    for name, value in (item for inner in operators if inner.attrs is not None for item in inner.attrs.items()):
        if name in declared and value not in values.setdefault(name, []):
            values[name].append(value)
    wanted = "{0} looks at {1}, of which operators in the composite have one value: say which by composite_attributes"
    return [
        Reason("attribute", wanted.format(kernel, name), " and ".join(map(repr, found)))
        for name, found in values.items()
        if len(found) > 1
    ]


def _said_refusals(kernel: Kernel, said: Mapping[str, object], declared: Collection[str]) -> list[Reason]:
    """What the backend says that *kernel* gets of a composite and it does not look at."""
    wanted = "{0} knows nothing of {1}, which composite_attributes gives it: {2}, or give it no {1}"
    return [
        Reason("attribute", wanted.format(kernel, name, _how(kernel, name)), repr(value))
        for name, value in said.items()
        if name not in declared
    ]


def _lacking(kernel: Kernel, names: Collection[str], required: Collection[str]) -> list[Reason]:
    """What *kernel* of a composite needs, where the attributes that it is given have *names*."""
    return [
        Reason("attribute", f"{kernel} needs {name}: give it by composite_attributes, or declare a default", found)
        for name in sorted(required)
        if name not in names
        for found in [", ".join(sorted(names)) or "no attributes"]
    ]


def _unchecked_pattern(target: str, name: str) -> DFPattern | None:
    """The pattern *name* of the backend *target*, where nothing but itself says which attributes it matches."""
    backend = BACKENDS.get(target)
    entries = [] if backend is None else [e for e in pattern_entries(backend) if e.name == name]
    return entries[0].pattern if len(entries) == 1 and entries[0].asked is None else None


def _source_refusals(kernel: Kernel, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> list[Reason]:
    types = _TYPES[type(kernel.run)]
    dims = {d for ty in inputs for d in spec_of("", ty).shape if isinstance(d, str)}
    for ty in (*inputs, *outputs):
        if ty.dtype not in types:
            return [Reason("dtype", f"{kernel}: source has types for {', '.join(types)}", ty.dtype)]
        unknown = [d for d in spec_of("", ty).shape if d is None or (isinstance(d, str) and not is_computable(d, dims))]
        if unknown:
            return [Reason("size", f"{kernel}: sizes that its inputs determine", repr(ty))]
    if isinstance(kernel.run, OpenCLSource) and any(0 in t.shape for t in (*inputs, *outputs)):
        return [Reason("empty", f"{kernel}: tensors with at least one element", "an empty one")]
    return []
