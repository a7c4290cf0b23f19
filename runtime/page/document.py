"""A page, or a part of a notebook: its style and script stand in it, and its policy lets it fetch nothing."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@functools.cache
def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def fragment(parts: Iterable[str]) -> str:
    """The *parts* with what styles them and makes them live, for a notebook or for :func:`document`."""
    body = "\n".join(filter(None, parts))
    return f'<div class="byoc"><style>{_text("page.css")}</style>\n{body}\n<script>{_text("page.js")}</script></div>'


def document(title: str, content: str) -> str:
    """The page of *content*, which :func:`fragment` made."""
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{escape(title)}</title></head><body>\n{content}\n</body></html>\n"
    )
