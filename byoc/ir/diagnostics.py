"""Diagnostics: what a failing pass found, shown before the error is raised. Source: ``tvm.ir.diagnostics``.

byoc raises errors whose text is the whole message; a renderer is shown them as :class:`Diagnostic` where a user of
Relay's names asks for it with :func:`override_renderer`. Without one nothing is printed.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from byoc.errors import TypeInferenceError, UserError
from byoc.ir.module import IRModule
from byoc.ir.registry import get_global_func
from byoc.ir.span import AnySpan, SourceName, Span
from byoc.ir.types import TensorType


class DiagnosticLevel(enum.IntEnum):
    """How grave a diagnostic is. Source: ``tvm.ir.diagnostics.DiagnosticLevel``."""

    BUG = 10
    ERROR = 20
    WARNING = 30
    NOTE = 40
    HELP = 50


@dataclass(frozen=True)
class Diagnostic:
    """One message about one place. Source: ``tvm.ir.diagnostics.Diagnostic``."""

    level: DiagnosticLevel
    span: AnySpan | None
    message: str


class DiagnosticRenderer:
    """Shows the diagnostics of a context: *render* is called with it. Source: ``DiagnosticRenderer``."""

    def __init__(self, render: Callable[[DiagnosticContext], object]):
        self._render = render

    def render(self, ctx: DiagnosticContext) -> None:
        """Show what *ctx* holds."""
        self._render(ctx)

    def __call__(self, ctx: DiagnosticContext) -> None:
        self._render(ctx)


@dataclass
class DiagnosticContext:
    """The diagnostics about *module*, which *renderer* shows. Source: ``DiagnosticContext``."""

    module: IRModule
    renderer: DiagnosticRenderer
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def emit(self, diagnostic: Diagnostic) -> None:
        """Add a diagnostic."""
        self.diagnostics.append(diagnostic)

    def render(self) -> None:
        """Show the diagnostics; raises UserError (``tvm.error.DiagnosticError``) where one is an error or worse."""
        self.renderer.render(self)
        grave = [d.message for d in self.diagnostics if d.level <= DiagnosticLevel.ERROR]
        if grave:
            raise UserError("; ".join(grave))


def _print(ctx: DiagnosticContext) -> None:
    for diagnostic in ctx.diagnostics:
        at = f"{diagnostic.span}: " if diagnostic.span is not None else ""
        print(f"{at}{diagnostic.level.name.lower()}: {diagnostic.message}")


_DEFAULT = DiagnosticRenderer(_print)
_OVERRIDE: list[DiagnosticRenderer] = []


class _Active(threading.local):
    """Whether a pass runs in this thread, so that one within another shows nothing twice."""

    inside = False


_ACTIVE = _Active()


def get_renderer() -> DiagnosticRenderer:
    """The renderer that is set, else one that prints. Source: ``tvm.ir.diagnostics.get_renderer``."""
    return _OVERRIDE[-1] if _OVERRIDE else _DEFAULT


def override_renderer(
    render_func: Callable[[DiagnosticContext], object] | DiagnosticRenderer | None,
) -> None:
    """Let *render_func* be shown what passes find from now on; None takes it away. Source: ``override_renderer``."""
    _OVERRIDE.clear()
    if render_func is not None:
        given = render_func if isinstance(render_func, DiagnosticRenderer) else DiagnosticRenderer(render_func)
        _OVERRIDE.append(given)


def is_rendered() -> bool:
    """Whether what runs in this thread is inside of :func:`rendered`, which has an effect once."""
    return _ACTIVE.inside


@contextmanager
def rendered(module: IRModule) -> Iterator[None]:
    """Within, an error of the user is shown to the renderer that is set, once, and raised as a plain UserError.

    That is the class that ``tvm.error.DiagnosticError`` names, of which Relay's tests ask that it is the very class.
    Without a renderer of the user's the error is raised as it is.
    """
    outermost, _ACTIVE.inside = not _ACTIVE.inside, True
    try:
        yield
    except UserError as error:
        if not outermost or not _OVERRIDE:
            raise
        context = DiagnosticContext(module, get_renderer())
        context.emit(Diagnostic(DiagnosticLevel.ERROR, None, described(error)))
        context.renderer.render(context)
        raise UserError(str(error)) from error
    finally:
        if outermost:
            _ACTIVE.inside = False


def described(error: BaseException) -> str:
    """The text of *error*, and that of the two types that could not be matched, where its cause knows them."""
    lines, cause = [str(error)], error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, TypeInferenceError) and cause.types is not None:
        lines.append(mismatch(*cause.types))
    return "\n".join(lines)


def mismatch(found: object, wanted: object) -> str:
    """Why the types *found* and *wanted* do not match, in the words of Relay's type checker."""
    as_text: Callable[..., str] = get_global_func("relay.ir.astext")
    first, second = as_text(found, False), as_text(wanted, False)
    head = "The Relay type checker is unable to show the following types match"
    if isinstance(found, TensorType) and isinstance(wanted, TensorType):
        if found.ndim != wanted.ndim:
            ranks = f"{found.ndim} dimensions, while `{second}` has {wanted.ndim} dimensions"
            return f"tensor type `{first}` has {ranks}"
        if found.dtype == wanted.dtype:
            pairs = enumerate(zip(found.shape, wanted.shape, strict=True))
            lines = [f"  dimension {i} conflicts: {a} does not match {b}." for i, (a, b) in pairs if a != b]
            return "\n".join([f"{head}:", f"  {first}", f"  {second}", "In particular:", *lines])
    return f"{head}.\nIn particular `{first}` does not match `{second}`"


__all__ = [
    "Diagnostic",
    "DiagnosticContext",
    "DiagnosticLevel",
    "DiagnosticRenderer",
    "SourceName",
    "Span",
    "described",
    "get_renderer",
    "mismatch",
    "override_renderer",
    "rendered",
]
