"""What a user writes for costs, and the model that it means.

``"typical"`` (numbers of usual devices), ``"auto"`` (with the driver this machine's numbers where they are known, else
the typical ones), with the driver ``"analytic"`` (this machine's, which is asked where they are not known) and
``"measured"``; a file of a table; a function ``(unit, place) -> seconds``; a model; or a mapping from backends to any
of these, where the backends that are not named get ``"auto"``.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Mapping

from byoc.errors import PartitionError
from byoc.partition.costs.analytic import AnalyticModel
from byoc.partition.costs.model import HOST, HOST_BACKEND, CostModel, backend_of

DEFAULT = "auto"
CostSpec = object  # str | path | CostModel | CostFunction | Mapping[str, CostSpec]
Models = Mapping[str, Callable[[], CostModel]]
# words that mean something without a machine to measure; the driver has more
TYPICAL: Models = dict.fromkeys((DEFAULT, "analytic", "typical"), AnalyticModel)


def cost_model(spec: CostSpec = DEFAULT, backends: Iterable[str] = (), words: Models = TYPICAL) -> CostModel:
    """The model that *spec* means for *backends*, the host among them or not; *words* are names that users may write.

    Raises PartitionError for a word that is no model, a table that cannot be read, a mapping that names a backend
    which is not asked for, and for anything that is no such description.
    """
    names = [backend_of(name) for name in backends]
    shared = _Shared(words)
    if not isinstance(spec, Mapping):
        if isinstance(spec, CostModel):
            return spec
        if _is_word(spec):
            return shared[str(spec)]
        from byoc.partition.costs.mix import MixedModel

        away = [name for name in dict.fromkeys(names) if name != HOST_BACKEND]
        return MixedModel({name: _of(name, spec, shared) for name in away}, shared[DEFAULT])
    from byoc.partition.costs.mix import MixedModel

    known = [*names, HOST_BACKEND]
    for key in spec:
        if backend_of(str(key)) not in known:
            raise PartitionError(
                f"costs name the backend {key!r}, which is not asked for; asked: {', '.join(dict.fromkeys(known))}"
            )
    given = {backend_of(str(key)): value for key, value in spec.items()}
    if len(given) < len(spec):
        raise PartitionError(f"costs name the host twice, as {HOST!r} and as {HOST_BACKEND!r}: drop one of both")
    return MixedModel({n: _of(n, value, shared) for n, value in given.items()}, shared[DEFAULT])


def _is_word(spec: object) -> bool:
    return isinstance(spec, str) and not spec.endswith(".json") and os.sep not in spec


class _Shared:
    """The models of words, each made once, on its first use."""

    def __init__(self, words: Models):
        self.words = words
        self._made: dict[str, CostModel] = {}

    def __getitem__(self, word: str) -> CostModel:
        if word not in self.words:
            near = difflib.get_close_matches(word, list(self.words), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            known = ", ".join(sorted(self.words))
            raise PartitionError(f"no costs are called {word!r}; known: {known}, or a .json file{hint}")
        if word not in self._made:
            self._made[word] = self.words[word]()
        return self._made[word]


def _of(backend: str, spec: object, shared: _Shared) -> CostModel:
    """The model of one backend."""
    from byoc.partition.costs.table import FunctionModel, Table, TableModel

    if isinstance(spec, CostModel):
        return spec
    if _is_word(spec):
        return shared[str(spec)]
    if isinstance(spec, (str, os.PathLike)):
        return TableModel(backend, Table.load(spec))
    if isinstance(spec, Table):
        return TableModel(backend, spec)
    if callable(spec):
        return FunctionModel(backend, spec)
    raise PartitionError(
        f"backend {backend!r}: costs are one of {', '.join(sorted(shared.words))}, a .json file, a function "
        f"(unit, place) -> seconds or a model, got {spec!r}"
    )
