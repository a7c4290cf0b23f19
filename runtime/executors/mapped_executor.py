"""A native executor with weights in a mapped file: each run looks before and after whether somebody wrote into it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.files.file_memory import FileWatch
from byoc.runtime.graph.executor_base import Executor
from byoc.runtime.graph.graph import LoopCall, LoopResult
from byoc.runtime.region.record import Fallback

Result = TypeVar("Result")


class MappedExecutor(Executor):
    """Runs as *inner* does. Raises ArtifactError when the file that *watch* watches was written into."""

    def __init__(self, inner: Executor, watch: FileWatch):
        super().__init__(inner.graph)
        self.inner, self._watch = inner, watch

    def _checked(self, run: Callable[[], Result]) -> Result:
        self._watch.check()
        result = run()
        self._watch.check()  # what was computed meanwhile may be of both contents
        return result

    def set_input(self, key: str | int, value: object) -> None:
        self.inner.set_input(key, value)

    def run(self, timeout: object = None, **inputs: object) -> None:
        self._checked(lambda: self.inner.run(timeout, **inputs))

    def get_output(self, index: int = 0) -> NDArray:
        return self.inner.get_output(index)

    def __call__(self, inputs: Mapping[str, object]) -> list[np.ndarray]:
        return self._checked(lambda: self.inner(inputs))

    def compute(self, inputs: Sequence[object]) -> list[np.ndarray]:
        return self._checked(lambda: self.inner.compute(inputs))

    def loop(self, call: LoopCall, inputs: Sequence[object]) -> LoopResult | None:
        return self._checked(lambda: self.inner.loop(call, inputs))

    @property
    def input_values(self) -> Mapping[str, np.ndarray]:
        return self.inner.input_values

    @property
    def fallbacks(self) -> list[Fallback]:
        return self.inner.fallbacks
