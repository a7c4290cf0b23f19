"""What a user writes for costs, and the model that it means.

``"analytic"`` or another registered name; a file of a table; a function ``(unit, place) -> seconds``; a model; or a
mapping from backends to any of these, where the backends that are not named get ``"analytic"``.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping

from byoc.errors import PartitionError
from byoc.ir.registry import Registry, caller_location
from byoc.partition.costs.analytic import AnalyticModel
from byoc.partition.costs.mix import MixedModel
from byoc.partition.costs.model import HOST, HOST_BACKEND, CostModel, backend_of
from byoc.partition.costs.profile import Profile
from byoc.partition.costs.table import FunctionModel, Table, TableModel

DEFAULT = "analytic"
CostSpec = object  # str | path | CostModel | CostFunction | Mapping[str, CostSpec]
MODELS: Registry[Callable[[], CostModel]] = Registry("cost model")
# what asks the machine: backend -> what its device can do, or None; the driver puts a calibration here
CALIBRATIONS: Registry[Callable[[str], Profile | None]] = Registry("calibration")


def register_cost_model(name: str, make: Callable[[], CostModel]) -> None:
    """Make *name* a word that users may write for costs. Raises RegistryError when it is taken."""
    MODELS.register(name, make, where=caller_location())


def _calibrated(backend: str) -> Profile | None:
    """What a registered calibration finds for *backend*."""
    return next((p for name in CALIBRATIONS if (p := CALIBRATIONS[name](backend)) is not None), None)


register_cost_model(DEFAULT, lambda: AnalyticModel(find=_calibrated))


def cost_model(spec: CostSpec = DEFAULT, backends: Iterable[str] = ()) -> CostModel:
    """The model that *spec* means for *backends*, the host among them or not.

    Raises PartitionError for a word that is no model, a table that cannot be read, a mapping that names a backend
    which is not asked for, and for anything that is no such description.
    """
    names = [backend_of(name) for name in backends]
    shared: dict[str, CostModel] = {}
    if not isinstance(spec, Mapping):
        if isinstance(spec, CostModel):
            return spec
        if _is_word(spec):
            return _named(str(spec), shared)
        away = [name for name in dict.fromkeys(names) if name != HOST_BACKEND]
        return MixedModel({name: _of(name, spec, shared) for name in away}, _named(DEFAULT, shared))
    known = [*names, HOST_BACKEND]
    for key in spec:
        if backend_of(str(key)) not in known:
            raise PartitionError(
                f"costs name the backend {key!r}, which is not asked for; asked: {', '.join(dict.fromkeys(known))}"
            )
    given = {backend_of(str(key)): value for key, value in spec.items()}
    return MixedModel({n: _of(n, value, shared) for n, value in given.items()}, _named(DEFAULT, shared))


def _is_word(spec: object) -> bool:
    return isinstance(spec, str) and not spec.endswith(".json") and os.sep not in spec


def _named(word: str, shared: dict[str, CostModel]) -> CostModel:
    """The model that *word* means, one for all backends that share it."""
    if word not in MODELS:
        near = difflib.get_close_matches(word, list(MODELS), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise PartitionError(f"no costs are called {word!r}; known: {', '.join(sorted(MODELS))}, or a .json file{hint}")
    if word not in shared:
        shared[word] = MODELS[word]()
    return shared[word]


def _of(backend: str, spec: object, shared: dict[str, CostModel]) -> CostModel:
    """The model of one backend."""
    if isinstance(spec, CostModel):
        return spec
    if _is_word(spec):
        return _named(str(spec), shared)
    if isinstance(spec, (str, os.PathLike)):
        return TableModel(backend, Table.load(spec))
    if isinstance(spec, Table):
        return TableModel(backend, spec)
    if callable(spec):
        return FunctionModel(backend, spec)
    raise PartitionError(
        f"backend {backend!r}: costs are a name ({', '.join(sorted(MODELS))}), a .json file, a function (unit, place) -> "
        f"seconds or a model, got {spec!r}"
    )


__all__ = ["CALIBRATIONS", "DEFAULT", "HOST", "MODELS", "CostSpec", "cost_model", "register_cost_model"]
