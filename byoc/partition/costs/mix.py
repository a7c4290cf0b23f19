"""Each backend by a model of its own; a transfer between two devices goes by the host, each half by its own model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from byoc.partition.costs.model import HOST_BACKEND, CostModel, Estimate, backend_of, total
from byoc.relay.expr import Call, Function


class MixedModel(CostModel):
    """*models* by backend; *other* answers for the backends that are not there."""

    def __init__(self, models: Mapping[str, CostModel], other: CostModel):
        self._models, self._other = dict(models), other
        self.name = "mix"

    def of(self, target: str) -> CostModel:
        """The model of *target*."""
        return self._models.get(backend_of(target), self._other)

    def units(self, calls: Sequence[Call], target: str, precision: str = "") -> list[Estimate]:
        return self.of(target).units(calls, target, precision)

    def share(
        self, calls: Sequence[Call], leaving: Collection[Call], target: str, precision: str = ""
    ) -> list[Estimate]:
        return self.of(target).share(calls, leaving, target, precision)

    def region(self, function: Function, target: str, precision: str = "") -> Estimate:
        return self.of(target).region(function, target, precision)

    def transfer(self, size: int, source: str, destination: str) -> Estimate:
        first, second = backend_of(source), backend_of(destination)
        if first == second:
            return Estimate(0.0, self.of(source).name)
        halves = []
        if first != HOST_BACKEND:
            halves.append(self.of(first).transfer(size, first, HOST_BACKEND))
        if second != HOST_BACKEND:
            halves.append(self.of(second).transfer(size, HOST_BACKEND, second))
        return total(halves)

    def launch(self, target: str) -> Estimate:
        return self.of(target).launch(target)
