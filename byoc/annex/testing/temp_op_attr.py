"""An attribute of an operator for the time of a ``with`` block. Source: ``relay.testing.temp_op_attr``."""

from __future__ import annotations

from byoc.ir.op import get_op


class TempOpAttr:
    """Sets *attr_key* of an operator to *attr_value*, and puts back what was there at the end of the block."""

    def __init__(self, op_name: str, attr_key: str, attr_value: object):
        self._op, self._key, self._value = get_op(op_name), attr_key, attr_value
        self._before = self._op.get_attr(attr_key)

    def __enter__(self) -> TempOpAttr:
        self._op.reset_attr(self._key)
        self._op.set_attr(self._key, self._value)
        return self

    def __exit__(self, *exc: object) -> None:
        self._op.reset_attr(self._key)
        if self._before is not None:
            self._op.set_attr(self._key, self._before)
