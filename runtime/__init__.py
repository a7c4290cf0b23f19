"""What a compiled model needs to run: arrays, modules, executors, numpy kernels, the artefact. No compiler.

``byoc.runtime.load("m.byoc")`` loads a saved model; calling it runs it. Modules of subpackages that users
know as this package's (``byoc.runtime.ndarray``) are imported here as such.
"""

if __name__ != "byoc.runtime":  # a second copy of every class below it
    raise ImportError(
        f"{__name__} is byoc.runtime, found by a search path that holds byoc's checkout: import byoc.runtime instead"
    )

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
