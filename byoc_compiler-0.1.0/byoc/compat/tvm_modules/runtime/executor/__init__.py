"""Executors over a built library. Source: ``tvm.runtime.executor``."""

from byoc.compat.tvm_modules.runtime.executor.aot_executor import AotModule

__all__ = ["AotModule"]
