"""The compiler's cache: byoc keeps none between builds. Source: ``relay.backend.te_compiler``."""

from __future__ import annotations

from byoc.compat.tvm.below import Missing


class TECompiler:
    """What tests clear before they build."""

    def clear(self) -> None:
        """There is nothing to clear."""

    def items(self) -> list[object]:
        """What is kept: nothing."""
        return []


_COMPILER = TECompiler()


def get() -> TECompiler:
    """The compiler. Source: ``te_compiler.get``."""
    return _COMPILER


def __getattr__(name: str) -> Missing:
    if name.startswith("__"):
        raise AttributeError(name)
    return Missing(f"tvm.relay.backend.te_compiler.{name}")
