"""Fixtures that take each of several values, alone or together. Source: ``tvm.testing.utils``.

``shape = tvm.testing.parameter((1, 3), (2, 4))`` at the level of a module or a class is a fixture called ``shape``.
"""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from byoc.errors import UserError


def parameter(*values: object, ids: Sequence[str] | None = None, by_dict: Mapping[str, object] | None = None) -> object:
    """A fixture that takes each of *values* in turn; *by_dict* gives each a name. Source: ``tvm.testing.parameter``.

    Raises UserError where *by_dict* is given beside *values* or *ids*.
    """
    if by_dict is not None:
        if values or ids:
            raise UserError("tvm.testing.parameter takes either values with ids, or by_dict")
        ids, values = list(by_dict), tuple(by_dict.values())

    def value(*_cls: object, request: pytest.FixtureRequest) -> object:
        return request.param

    return pytest.fixture(params=values, ids=ids)(value)


@dataclass(frozen=True, eq=False)
class ParameterGroup:
    """Tuples of values that several fixtures take together; the plugin varies them as one."""

    value_sets: tuple[Sequence[object], ...]
    ids: tuple[str, ...] | None


def parameters(*value_sets: Sequence[object], ids: Sequence[str] | None = None) -> list[object]:
    """Fixtures over the tuples of *value_sets*, one a position, that vary together (by ``tvm.testing.plugin``).

    Raises UserError for tuples of different lengths. Source: ``tvm.testing.parameters``.
    """
    lengths = sorted({len(values) for values in value_sets})
    if len(lengths) != 1:
        raise UserError(f"tvm.testing.parameters takes tuples of one length, got lengths {lengths}")
    group = ParameterGroup(value_sets, tuple(ids) if ids else None)
    return [_grouped(group, position) for position in range(lengths[0])]


def _grouped(group: ParameterGroup, position: int) -> object:
    def value(*_cls: object, request: pytest.FixtureRequest) -> object:
        return request.param

    vars(value).update(parameter_group=group, position=position)
    return pytest.fixture(value)


def fixture(func: Callable[..., object] | None = None, *, cache_return_value: bool = False) -> object:
    """pytest's fixture; with *cache_return_value* computed once for equal arguments, each test getting a copy.

    Source: ``tvm.testing.fixture``.
    """
    if func is None:
        return functools.partial(fixture, cache_return_value=cache_return_value)
    return pytest.fixture(_cached(func) if cache_return_value and not inspect.isgeneratorfunction(func) else func)


def _cached(func: Callable[..., object]) -> Callable[..., object]:
    known: dict[bytes, object] = {}

    @functools.wraps(func)
    def value(*cls: object, **arguments: object) -> object:
        try:
            key = pickle.dumps(sorted(arguments.items()))
        except (pickle.PicklingError, TypeError, AttributeError):
            return func(*cls, **arguments)  # what cannot be compared is computed anew
        if key not in known:
            known[key] = func(*cls, **arguments)
        return copy.deepcopy(known[key])

    return value


def _marked(name: str, names: Sequence[object], reason: object) -> Callable[[object], object]:
    mark: Callable[[object], object] = getattr(pytest.mark, name)(*names, reason=reason)
    return mark


def xfail_parameterizations(*xfail_params: object, reason: object) -> Callable[[object], object]:
    """Expects failure of the parametrised tests of these ids. Source: ``tvm.testing.xfail_parameterizations``."""
    return _marked("tvm_xfail_parameterizations", xfail_params, reason)


def skip_parameterizations(*skip_params: object, reason: object) -> Callable[[object], object]:
    """Skips the parametrised tests of these ids. Source: ``tvm.testing.skip_parameterizations``."""
    return _marked("tvm_skip_parameterizations", skip_params, reason)
