"""Block-sparse weights of nn.dense, which byoc does not have. Source: ``relay.data_dep_optimization.bsr_dense``."""

from __future__ import annotations

from typing import NoReturn

from byoc.errors import UserError


def convert(func: object, params: object, *args: object, **options: object) -> NoReturn:
    """Raises UserError: there are no sparse products here."""
    raise UserError("bsr_dense: byoc has no block-sparse products; run the function with its dense weights as it is")
