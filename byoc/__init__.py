"""byoc: bring your own codegen. A model is cut across a host and accelerators; each vendor compiles its share.

Names are looked up when first used, so that ``import byoc.runtime`` imports nothing of the compiler.
"""

from pathlib import Path

from byoc.base import module_aliases
from byoc.base.lazy_names import lazy_names
from byoc.base.module_aliases import require_one_copy

__version__ = "0.1.0"

require_one_copy(Path(__file__).parent)
module_aliases.install()
__getattr__, __dir__, _names = lazy_names(__name__)
__all__ = ["__version__", *_names]
