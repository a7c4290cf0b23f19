"""Constraints that many backends need, ready made: each says in a sentence what is supported, and finds what is not.

    constraints = (operators("nn.conv2d", "nn.relu"), dtypes("float32"), static_sizes(), layouts(data="NCHW"))

All but :func:`operators` look into composites, at each operator there; a value that the composite is given counts as
what it is outside. They stand in ``Backend.constraints`` and in rows of pattern tables, as those that
:func:`byoc.contract.constraint` makes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from byoc.contract.verdict import EVERY, Constraint, callee_name, calls_in, place_of
from byoc.errors import PartitionError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OPS, Op
from byoc.ir.types import DTYPES, TensorType, TupleType, Type, tensor_types
from byoc.relay.expr import Call, Constant, Function


def is_windowed(op: Op) -> bool:
    """Whether an operator is a convolution or a pool of floats: a window that strides over tensors in layouts."""
    return op.traits.takes_blocks and "strides" in getattr(op.attrs_type, "__dataclass_fields__", ())


def operators(*names: str, table: Container[str] | None = None) -> Constraint:
    """These operators and composites, or those that a kernel *table* has. An unknown name is reported when the
    backend is used.

    >>> print(operators("add", "nn.relu").text)
    the operators add and nn.relu
    """
    if not names and table is None:
        raise PartitionError("operators() needs names, or a table")
    if names:
        _some(names, "operators", str)
    known: Container[str] = frozenset(names) if table is None else table
    text = f"the operators {_listed(names)}" if table is None else "an operator that its table of kernels has"

    def check(call: Call) -> str | None:
        return None if callee_name(call) in known else callee_name(call)

    return Constraint("operator", text, check, names=names)


def dtypes(*names: str) -> Constraint:
    """Operands and results of these dtypes alone.

    >>> print(dtypes("float32", "float16").text)
    float32 or float16 for operands and results
    """
    for name in _some(names, "dtypes", (str, type)):
        _check_dtype(name)
    text = f"{_listed(names, 'or')} for operands and results"

    def check(call: Call) -> str | None:
        found = dict.fromkeys(t.dtype for t in _tensors(call))
        return ", ".join(d for d in found if d not in names) or None

    return Constraint("dtype", text, check, (EVERY,), dtypes=names)


def static_sizes() -> Constraint:
    """Dimensions that are known when the region is compiled: neither named nor unknown.

    >>> print(static_sizes().text)
    dimensions that are known when it is compiled
    """

    def check(call: Call) -> str | None:
        return next((repr(t) for t in _tensors(call) if not t.is_static), None)

    return Constraint("shape", "dimensions that are known when it is compiled", check, (EVERY,))


def ranks(*counts: int, operand: int = 0) -> Constraint:
    """Tensors of so many dimensions, of those that stand at the place *operand*.

    >>> print(ranks(2, 4).text)
    2 or 4 dimensions of operand 0
    """
    text = f"{_listed([str(c) for c in _some(counts, 'ranks', int)], 'or')} dimensions of operand {operand}"

    def check(call: Call) -> str | None:
        if operand >= len(call.args):
            return None
        found = [t.ndim for t in tensor_types(call.args[operand].checked_type)]
        return next((f"{n} dimensions" for n in found if n not in counts), None)

    return Constraint("rank", text, check, (EVERY,))


def constant_weights() -> Constraint:
    """Products (dense layers, convolutions) with weights that are constants of the model.

    >>> print(constant_weights().text)
    weights that are constants
    """

    def check(call: Call) -> str | None:
        given = _given(call)
        for inner in calls_in(call):
            if isinstance(inner.op, Op) and inner.op.traits.product is not None and len(inner.args) > 1:
                weights = given.get(inner.args[1], inner.args[1])
                if not isinstance(weights, Constant):
                    return f"weights of {place_of(inner)} that are computed or given"
        return None

    return Constraint("weights", "weights that are constants", check)


def layouts(data: str | Iterable[str] = (), kernel: str | Iterable[str] = ()) -> Constraint:
    """Convolutions, poolings and resizes in these layouts of *data* and of *kernel*; any, where one is not said.

    >>> print(layouts(data="NHWC", kernel=("HWIO", "OHWI")).text)
    data in NHWC, weights in HWIO or OHWI
    """
    wanted = {"data": _tuple(data), "weights": _tuple(kernel)}
    for name in (*wanted["data"], *wanted["weights"]):
        _check_layout(name)
    said = [f"{what} in {_listed(names, 'or')}" for what, names in wanted.items() if names]
    if not said:
        raise PartitionError("layouts() needs layouts of data, of kernels, or of both")

    def check(call: Call) -> str | None:
        used = {
            "data": [_attribute(call, name) for name in ("data_layout", "layout", "out_layout")],
            "weights": [_attribute(call, "kernel_layout")],
        }
        for what, names in wanted.items():
            found = next((f for f in used[what] if names and f and f not in names), None)
            if found:
                return f"{what} in {found}"
        return None

    return Constraint("layout", ", ".join(said), check, (EVERY,))


def groups(*counts: int, depthwise: bool = False) -> Constraint:
    """Convolutions of so many groups; with *depthwise* also of as many as their data has channels.

    >>> print(groups(1, depthwise=True).text)
    1 group, or one for each channel
    """
    text = f"{_listed([str(c) for c in _some(counts, 'groups', int)], 'or')} {'group' if counts == (1,) else 'groups'}"

    def check(call: Call) -> str | None:
        found = _attribute(call, "groups")
        if found is None or found in counts or (depthwise and found == _channels(call)):
            return None
        return f"{found} groups"

    return Constraint("groups", text + (", or one for each channel" if depthwise else ""), check, (EVERY,))


def attributes(**allowed: object) -> Constraint:
    """Operators whose attributes of these names have one of the values given, or all of whose numbers are among them.

    >>> print(attributes(dilation=1, strides=(1, 2)).text)
    dilation of 1, strides of 1 or 2
    """
    if not allowed:
        raise PartitionError("attributes() needs names with their values")
    for name in allowed:
        _check_attribute(name)
    wanted = {n: tuple(v) if isinstance(v, (tuple, list, range, set)) else (v,) for n, v in allowed.items()}
    text = ", ".join(f"{name} of {_listed([str(v) for v in values], 'or')}" for name, values in wanted.items())

    def check(call: Call) -> str | None:
        for name, values in wanted.items():
            found = _attribute(call, name)
            numbers = found if isinstance(found, tuple) else (found,)
            if found is not None and found not in values and not all(n in values for n in numbers):
                return f"{name} {found}"
        return None

    return Constraint("attribute", text, check, (EVERY,))


def named_sizes(most_axes: int | None = None, least: int = 0) -> Constraint:
    """Dimensions that are numbers or named sizes, which the region's function is given; numbers from *least* on.

    >>> print(named_sizes(most_axes=6, least=1).text)
    up to 6 dimensions, which are numbers from 1 on or named sizes
    """
    text = "dimensions that are numbers or named sizes"
    if most_axes is not None or least:
        counted = "dimensions" if most_axes is None else f"up to {most_axes} dimensions"
        text = f"{counted}, which are numbers from {least} on or named sizes"

    def check(call: Call) -> str | None:
        for ty in _tensors(call):
            small = any(isinstance(size, int) and size < least for size in ty.shape)
            if not ty.is_symbolic or small or (most_axes is not None and ty.ndim > most_axes):
                return str(ty)
        return None

    return Constraint("shape", text, check, (EVERY,))


def plain_layouts(of: Sequence[str] | Callable[[Op], bool] = is_windowed, grouped: bool = False) -> Constraint:
    """Convolutions and poolings (or operators *of* these names, or for which this is true) over tensors whose layouts
    are plain axes, each once, in any order; *grouped* kernels may have an axis G of groups.

    >>> print(plain_layouts(grouped=True).text)
    layouts of plain axes, each once, in any order; kernels perhaps with an axis of groups
    """
    text = "layouts of plain axes, each once, in any order"

    def check(call: Call) -> str | None:
        space = {3: "W", 4: "HW", 5: "DHW"}.get(tensor_types(call.args[0].checked_type)[0].ndim, "")
        wanted = {name: [f"NC{space}"] for name in ("layout", "data_layout", "out_layout")}
        wanted["kernel_layout"] = [f"OI{space}", *([f"GOI{space}"] if grouped else [])]
        for name, letters in wanted.items():
            found = str(_attribute(call, name) or "")
            if found and all(sorted(found) != sorted(w) for w in letters):
                return f"{name} {found}"
        return None

    text += "; kernels perhaps with an axis of groups" if grouped else ""
    return Constraint("layout", text, check, of if callable(of) else tuple(of))


def plain_transforms() -> Constraint:
    """Of ``layout_transform`` those that are transposes: between layouts of plain axes.

    >>> print(plain_transforms().text)
    layouts of plain axes, each once
    """

    def check(call: Call) -> str | None:
        names = [str(call.attrs.src_layout), str(call.attrs.dst_layout)]
        return next((name for name in names if not name.isupper() or len(set(name)) != len(name)), None)

    return Constraint("layout", "layouts of plain axes, each once", check, ("layout_transform",))


def zero_padding() -> Constraint:
    """Of ``nn.pad`` what puts zeros around.

    >>> print(zero_padding().text)
    zeros around, none taken away
    """

    def check(call: Call) -> str | None:
        value = call.args[1]
        if call.attrs.pad_mode != "constant" or not isinstance(value, Constant) or value.data.numpy().any():
            return "other padding"
        return "negative widths" if any(int(n) < 0 for pair in call.attrs.pad_width for n in pair) else None

    return Constraint("pad", "zeros around, none taken away", check, ("nn.pad",))


def forward_slices(steps: bool = False) -> Constraint:
    """Of ``strided_slice`` those that go forwards and take every element between; with *steps* some of them.

    >>> print(forward_slices().text)
    slices forwards, of every element between
    """
    text = "slices forwards" if steps else "slices forwards, of every element between"

    def check(call: Call) -> str | None:
        strides = call.attrs.strides or () if call.attrs.slice_mode == "end" else ()
        return next((f"stride {s}" for s in strides if int(s) < 1 or (int(s) > 1 and not steps)), None)

    return Constraint("slice", text, check, ("strided_slice",))


def tensors_only() -> Constraint:
    """Operators that take and give tensors: no tuples, such as those of split and concatenate.

    >>> print(tensors_only().text)
    operators without tuples
    """

    def check(call: Call) -> str | None:
        types: list[Type] = [call.checked_type, *(arg.checked_type for arg in call.args)]
        return next((repr(t) for t in types if isinstance(t, TupleType)), None)

    return Constraint("tuple", "operators without tuples", check, (EVERY,))


def _tensors(call: Call) -> list[TensorType]:
    return [t for value in (call, *call.args) for t in tensor_types(value.checked_type)]


def _attribute(call: Call, name: str) -> object:
    return getattr(call.attrs, name, None) if call.attrs is not None else None


def _channels(call: Call) -> object:
    layout = _attribute(call, "data_layout")
    data = call.args[0].checked_type
    if not isinstance(layout, str) or not isinstance(data, TensorType) or "C" not in layout:
        return None
    return data.shape[layout.index("C")] if len(layout) == data.ndim else None


def _given(call: Call) -> Mapping[RelayExpr, RelayExpr]:
    """What the parameters of the composite that *call* calls stand for."""
    if not isinstance(call.op, Function):
        return {}
    return dict(zip(call.op.params, call.args, strict=True))


def _tuple(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _check_dtype(name: object) -> None:
    """Raises PartitionError for what is the name of no dtype, which no tensor would ever have."""
    if name in DTYPES:
        return
    near = difflib.get_close_matches(str(getattr(name, "__name__", name)), sorted(DTYPES), n=1)
    raise PartitionError(f"dtypes(): no dtype is called {name!r}{f'; did you mean {near[0]!r}?' if near else ''}")


def _check_layout(name: object) -> None:
    """Raises PartitionError for what is no layout: each axis once, by its letter, those that are split again small."""
    axes = re.findall("[A-Z]", name) if isinstance(name, str) else []
    if not axes or len(set(axes)) < len(axes) or not re.fullmatch("([A-Z]|[0-9]+[a-z])+", str(name)):
        raise PartitionError(f"layouts(): {name!r} is no layout, expected axes in their order, as in 'NHWC' or 'OIHW'")


def _check_attribute(name: str) -> None:
    """Raises PartitionError for an attribute that no operator has: nothing would ever be refused for it."""
    known: set[str] = set()
    for op in OPS:  # each is imported when it is looked at
        known.update(getattr(OPS[op].attrs_type, "__dataclass_fields__", ()))
        if name in known:
            return
    near = difflib.get_close_matches(name, sorted(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise PartitionError(f"attributes(): no operator has an attribute {name!r}{hint}")


def _some(values: tuple[object, ...], name: str, kind: type | tuple[type, ...]) -> tuple[object, ...]:
    """*values*. Raises PartitionError where there are none, and for one that is of another *kind*."""
    if not values:
        raise PartitionError(f"{name}() needs at least one")
    wrong = next((v for v in values if not isinstance(v, kind) or isinstance(v, bool)), None)
    if wrong is not None:
        raise PartitionError(f"{name}() was given {wrong!r}, expected {_WRITTEN[name]}")
    return values


_WRITTEN = {  # how the values of a constraint are written: one after the other, not as a list
    "operators": 'names, as in operators("add", "nn.relu")',
    "dtypes": 'names, as in dtypes("float32", "float16")',
    "ranks": "whole numbers, as in ranks(2, 4)",
    "groups": "whole numbers, as in groups(1)",
}


def _listed(names: Iterable[object], last: str = "and") -> str:
    *before, end = map(str, names)
    return f"{', '.join(before)} {last} {end}" if before else end
