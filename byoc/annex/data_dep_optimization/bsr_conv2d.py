"""Block-sparse weights of nn.conv2d, which byoc does not have. Source: ``relay.data_dep_optimization.bsr_conv2d``."""

from __future__ import annotations

from typing import NoReturn

from byoc.errors import UserError


def convert(func: object, params: object, *args: object, **options: object) -> NoReturn:
    """Raises UserError: there are no sparse products here."""
    raise UserError("bsr_conv2d: byoc has no block-sparse products; run the function with its dense weights as it is")
