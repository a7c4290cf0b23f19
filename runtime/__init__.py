"""What a compiled model needs to run: arrays, modules, executors, numpy kernels, the artefact. No compiler.

``byoc.runtime.load("m.byoc")`` loads a saved model; calling it runs it. Modules of rooms that users
know as this package's (``byoc.runtime.ndarray``) are imported here as such.
"""

from byoc.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
