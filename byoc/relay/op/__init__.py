"""Relay's operators. Its names are their builder functions; an operator is registered when somebody asks for it.

``operators.txt`` says which modules make which operator.
"""

from pathlib import Path

from byoc.base.lazy_names import lazy_names
from byoc.ir.op import OPS, for_each_operator
from byoc.ir.registry import read_homes
from byoc.relay.op.completion import complete

__getattr__, __dir__, __all__ = lazy_names(__name__)
for_each_operator(complete)
OPS.defer(read_homes(Path(__file__).parent / "operators.txt", "byoc.relay"))
