"""What a key of a cache says of options: a text, equal for equal ones."""

from __future__ import annotations

from byoc.options.declaration import Keyed, Options, options_of

_PLAIN = (str, int, float, bool, type(None))


def key_text(options: Options) -> str | None:
    """The values that :class:`Keyed` asks for, by name; None where one stands for more than its text says."""
    told: dict[str, object] = {}
    for declared in options_of(type(options)):
        value = getattr(options, declared.name)
        if declared.about.key is Keyed.TEXT:
            told[declared.name] = value
        elif declared.about.key is Keyed.DEFAULT and not _is_same(value, declared.default):
            return None
    return repr(told) if is_plain(told) else None


def _is_same(value: object, default: object) -> bool:
    return value is default or (type(value) is type(default) and is_plain(value) and value == default)


def is_plain(value: object) -> bool:
    """Whether the text of *value* says all about it."""
    if type(value) is dict:
        return all(type(k) is str and is_plain(v) for k, v in value.items())
    if type(value) is list or type(value) is tuple:
        return all(map(is_plain, value))
    return type(value) in _PLAIN
