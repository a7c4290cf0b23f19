"""The prelude of a module: lists, options, trees, and arrays of tensors of each dtype. Source: ``tvm.relay.prelude``.

The functions that do not depend on a shape are read and typed once in a process and shared by all modules.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from byoc.errors import UserError
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.types import Any, GlobalTypeVar, TensorType, TypeCall
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Function
from byoc.relay.narrowing import as_function
from byoc.relay.std import std_module
from byoc.relay.std.tensor_array_text import dynamic_text
from byoc.relay.std.tensor_arrays import StaticTensorArrayText, static_name
from byoc.relay.text.parser import parse, parse_untyped

DTYPES = ("float32", "float16", "float64", "int32", "uint8", "int8", "int16", "uint16", "int64")
FUNCTIONS = (
    "id",
    "compose",
    "flip",
    "hd",
    "tl",
    "nth",
    "update",
    "map",
    "foldl",
    "foldr",
    "foldr1",
    "concat",
    "filter",
    "zip",
    "rev",
    "unfoldl",
    "unfoldr",
    "map_accuml",
    "map_accumr",
    "length",
    "sum",
    "tmap",
    "size",
    "iterate",
)


def dynamic_name(canonical: str, dtype: str) -> str:
    """``tensor_float32_t`` for ``tensor_t``, else ``<canonical>_float32``."""
    return f"tensor_{dtype}_t" if canonical == "tensor_t" else f"{canonical}_{dtype}"


def _constructor(mod: IRModule, type_name: str, name: str) -> Constructor:
    for constructor in mod.get_type(type_name)[1:]:
        if isinstance(constructor, Constructor) and constructor.name_hint == name:
            return constructor
    raise UserError(f"the type {type_name} has no constructor {name!r}")


class Prelude:
    """Standard definitions in *mod*, a new module where none is given; its functions are attributes too."""

    def __init__(self, mod: IRModule | None = None):
        self.mod = mod if mod is not None else IRModule()
        self.load_prelude()

    def load_prelude(self) -> None:
        """Add the definitions to the module, unless they are there."""
        self.mod.import_from_std("prelude.rly")
        for name in FUNCTIONS:
            setattr(self, name, self.mod.get_global_var(name))
        for dtype in DTYPES:
            TensorArrayOps(self, dtype).register()

    # tensor arrays of one dtype -------------------------------------------------------------------------------------

    def get_name(self, canonical: str, dtype: str) -> str:
        """The name of a definition for a dtype."""
        return dynamic_name(canonical, dtype)

    def get_global_var(self, canonical: str, dtype: str) -> GlobalVar:
        """The function *canonical* for a dtype. Raises UserError where there is none."""
        return self.mod.get_global_var(self.get_name(canonical, dtype))

    def get_type(self, canonical: str, dtype: str) -> GlobalTypeVar:
        """The data type *canonical* for a dtype. Raises UserError where there is none."""
        return self.mod.get_global_type_var(self.get_name(canonical, dtype))

    def get_ctor(self, ty_name: str, canonical: str, dtype: str) -> Constructor:
        """The constructor *canonical* of the type *ty_name* for a dtype. Raises UserError where there is none."""
        return _constructor(self.mod, ty_name, self.get_name(canonical, dtype))

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Constructor:
        """The constructor *canonical* of the tensors of a dtype, such as ``tensor1``."""
        return self.get_ctor(self.get_name("tensor_t", dtype), canonical, dtype)

    # tensor arrays of one shape -------------------------------------------------------------------------------------

    def get_name_static(self, canonical: str, dtype: str, shape: Sequence[object], batch_dim: int | None = None) -> str:
        """The name of a definition for a dtype and a shape."""
        return static_name(canonical, dtype, shape, batch_dim)

    def get_global_var_static(
        self, canonical: str, dtype: str, shape: Sequence[object], batch_dim: int | None = None
    ) -> GlobalVar:
        """The function *canonical* for a dtype and a shape. Raises UserError where it is not registered."""
        return self.mod.get_global_var(static_name(canonical, dtype, shape, batch_dim))

    def get_type_static(self, canonical: str, dtype: str, shape: Sequence[object]) -> GlobalTypeVar:
        """The data type *canonical* for a dtype and a shape. Raises UserError where it is not registered."""
        return self.mod.get_global_type_var(static_name(canonical, dtype, shape))

    def get_ctor_static(self, ty_name: str, name: str, dtype: str, shape: Sequence[object]) -> Constructor:
        """The constructor *name* of the type *ty_name* for a dtype and a shape."""
        return _constructor(self.mod, static_name(ty_name, dtype, shape), static_name(name, dtype, shape))

    def get_tensor_ctor_static(self, name: str, dtype: str, shape: Sequence[object]) -> Constructor:
        """The constructor *name* (``tensor_constructor`` or ``tensor_nil``) of the tensors of a dtype and a shape."""
        return self.get_ctor_static("tensor_t", name, dtype, shape)


@functools.cache
def _dynamic_module(dtype: str) -> IRModule:
    """The definitions for a dtype, with the prelude that they use, typed."""
    text = dynamic_text(lambda canonical: dynamic_name(canonical, dtype), dtype)
    return parse(text, f"tensor_array_{dtype}", std_module("prelude.rly"))


class TensorArrayOps:
    """Arrays of tensors of one dtype, whose ranks and shapes may differ. Source: ``prelude.TensorArrayOps``."""

    def __init__(self, prelude: Prelude, dtype: str):
        self.prelude, self.dtype = prelude, dtype

    def get_name(self, canonical: str) -> str:
        """The name of a definition."""
        return self.prelude.get_name(canonical, self.dtype)

    def get_global_var(self, canonical: str) -> GlobalVar:
        """The function *canonical*."""
        return self.prelude.get_global_var(canonical, self.dtype)

    def get_type(self, canonical: str) -> GlobalTypeVar:
        """The data type *canonical*."""
        return self.prelude.get_type(canonical, self.dtype)

    def get_ctor(self, canonical: str) -> Constructor:
        """The constructor *canonical* of the tensors."""
        return self.prelude.get_tensor_ctor(canonical, self.dtype)

    def register(self) -> None:
        """Add all definitions for the dtype to the prelude's module, unless they are there."""
        mod, known = self.prelude.mod, _dynamic_module(self.dtype)
        for header, data in known.type_definitions.items():
            if header not in mod:
                mod.add_type(header, data)
            if header.name_hint == self.get_name("tensor_t"):
                setattr(self.prelude, header.name_hint, header)
        for var, func in known.functions.items():
            if var not in mod:
                mod[var] = func


class StaticTensorArrayOps(StaticTensorArrayText):
    """Arrays of tensors of one dtype and shape. Source: ``prelude.StaticTensorArrayOps``.

    The first dimension of what is taken, concatenated or stacked is dynamic; the types for these shapes are defined
    with those of *shape*. Each ``define_…`` adds one function to the module of *prelude*, once.
    """

    def __init__(self, prelude: Prelude, dtype: str, shape: Sequence[object], batch_dim: int | None = None):
        super().__init__(dtype, shape, batch_dim)
        self.prelude = prelude

    def _at(self, shape: Sequence[object]) -> StaticTensorArrayOps:
        return type(self)(self.prelude, self.dtype, shape, self.batch_dim)

    def _defined(self, name: str) -> bool:
        mod = self.prelude.mod
        return name in mod or any(header.name_hint == name for header in mod.get_global_type_vars())

    def _define(self, text: str) -> None:
        mod = self.prelude.mod
        parsed = parse_untyped(text, "static_tensor_array", mod)
        for header, data in parsed.type_definitions.items():
            if header not in mod:
                mod.add_type(header, data)
        for var, func in parsed.functions.items():
            mod[var] = func

    def _forget(self, name: str) -> None:
        if name in self.prelude.mod:
            del self.prelude.mod[name]

    def get_global_var(self, canonical: str) -> GlobalVar:
        """The function *canonical*. Raises UserError where it is not registered."""
        return self.prelude.mod.get_global_var(self.get_name(canonical))

    def get_type(self, canonical: str) -> GlobalTypeVar:
        """The data type *canonical*."""
        return self.prelude.mod.get_global_type_var(self.get_name(canonical))

    def get_ctor(self, canonical: str) -> Constructor:
        """The constructor *canonical* of the tensors."""
        return self.prelude.get_tensor_ctor_static(canonical, self.dtype, self.shape)

    def is_cached(self, name: str) -> bool:
        """True where the function called *name* is in the module."""
        return name in self.prelude.mod

    def register(self) -> None:
        """Add all definitions for the dtype and the shape to the prelude's module, unless they are there."""
        self.define_all()


def get_tensor_array_shape(expr: RelayExpr, dtype: str, prelude: Prelude) -> tuple[object, ...] | None:
    """The shape of the elements of a tensor array, or None where they may be of any.

    Raises UserError for an expression that is no list. Source: ``prelude.get_tensor_array_shape``.
    """
    mod = prelude.mod.shallow_copy()
    mod["main"] = Function([], expr)
    checked = as_function(infer_module(mod)["main"]).body.checked_type
    if not isinstance(checked, TypeCall) or len(checked.args) != 1 or not isinstance(checked.args[0], TypeCall):
        raise UserError(f"a tensor array is a list of tensors, got {checked!r}")
    tensor = checked.args[0].func
    if not isinstance(tensor, GlobalTypeVar) or not tensor.name_hint.startswith(f"static_tensor_{dtype}"):
        return None
    fields = [c.inputs for c in mod.type_definitions[tensor].constructors if c.inputs]
    assert isinstance(fields[0][0], TensorType)
    return tuple(dim if isinstance(dim, Any) else int(dim) for dim in fields[0][0].shape)
