"""The graph language, under the names that Relay's users know, each loaded when first used. Source: ``tvm.relay``.

Expressions, types, text, functors and all operators (``relay.add``, ``relay.nn.conv2d``) are here; every operator is
registered once this package is imported.
"""

import importlib

from byoc.lazy_names import lazy_names

for _package in ("op", "qnn"):
    importlib.import_module(f"{__name__}.{_package}")
__getattr__, __dir__, __all__ = lazy_names(__name__)
