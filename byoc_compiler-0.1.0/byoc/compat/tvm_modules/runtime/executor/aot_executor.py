"""``AotModule``: runs a library that was built for the executor ``aot``. Source: ``tvm.runtime.executor``."""

from __future__ import annotations

from byoc.compat.tvm_modules.contrib.graph_executor import GraphModule
from byoc.errors import UserError


class AotModule(GraphModule):
    """As the graph's executor, whose plan is made ahead of time too; inputs have names beside positions."""

    def get_input_name(self, index: int) -> str:
        """The name of an input. Raises UserError for a position that no input has."""
        names = self._names()
        if not 0 <= index < len(names):
            raise UserError(f"the module has {len(names)} inputs, there is no input {index}")
        return names[index]


__all__ = ["AotModule"]
