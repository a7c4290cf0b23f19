"""``BYOC_SANITIZE``: generated C that checks itself while it runs, and what a process needs for that.

The variable names sanitizers of GCC: ``address``, ``undefined``, both with a comma between, or ``thread``. Their flags
are flags of the compiler like any others, so that every cache keeps such code apart. Under the address sanitizer each
buffer of an arena also has memory of its own, with memory around it that nobody may touch (``guard_buffer``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from byoc.codegen.c.toolchain.command import CommandError, run_command
from byoc.codegen.c.toolchain.object_cache import cache_dir
from byoc.errors import UserError
from byoc.runtime.dso.library_file import KEEP_VARIABLE, PRELOADED, SANITIZERS, absent

VARIABLE = "BYOC_SANITIZE"
FLAGS: Mapping[str, tuple[str, ...]] = {
    "address": ("-fsanitize=address",),
    "undefined": ("-fsanitize=undefined", "-fno-sanitize-recover=undefined"),
    "thread": ("-fsanitize=thread",),
}
CHECKED_FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer")  # code whose reports name functions and lines
# what a Python process is started with where the user says nothing else: Python itself never frees all at
# the end, and of libraries that are not instrumented the thread sanitizer sees half
DEFAULT_OPTIONS = {
    "address": ("ASAN_OPTIONS", "detect_leaks=0"),
    "thread": ("TSAN_OPTIONS", "halt_on_error=1:ignore_noninstrumented_modules=1"),
}
_PROBE_SECONDS = 60.0  # in which the compiler prints where a library is
CPP_LIBRARY = "libstdc++.so.6"  # for the exceptions of C++ libraries, which a sanitizer passes on


def requested() -> tuple[str, ...]:
    """The sanitizers that the variable names. Raises UserError for others, and for two that exclude each other."""
    text = os.environ.get(VARIABLE, "")
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    unknown = [name for name in names if name not in SANITIZERS]
    if unknown:
        raise UserError(f"{VARIABLE}: there is no sanitizer {unknown[0]!r}; name {', '.join(SANITIZERS)}")
    if "thread" in names and "address" in names:
        raise UserError(f"{VARIABLE}: the thread sanitizer does not go with the address sanitizer; name one of them")
    return tuple(name for name in SANITIZERS if name in names)


def sanitizer_flags(names: Sequence[str]) -> tuple[str, ...]:
    """The compiler's flags for sanitizers."""
    return (*(flag for name in names for flag in FLAGS[name]), *CHECKED_FLAGS) if names else ()


def check_process(names: Sequence[str], command: Sequence[str], is_gcc: bool) -> None:
    """Raises UserError, saying what to do, where code with sanitizers could not run in this process."""
    if names and not is_gcc:
        raise UserError(f"{VARIABLE}: its sanitizers are those of GCC, and {' '.join(command)} is another: set CC=gcc")
    if absent(names):
        environment = " ".join(f"{k}='{v}'" for k, v in preloading(names, command).items())
        raise UserError(
            f"{VARIABLE}={','.join(names)} needs a process that starts with the sanitizer's library: start Python with "
            f"{environment}, or use byoc run, which does it by itself"
        )


def preloading(names: Sequence[str], command: Sequence[str]) -> dict[str, str]:
    """The variables of a process that can load code with *names*, made by the compiler *command*.

    Libraries are kept under a name, by which reports find functions and lines. Raises UserError where the compiler has
    no such library.
    """
    kept = {KEEP_VARIABLE: os.environ.get(KEEP_VARIABLE, str(cache_dir() / "sanitized"))}
    libraries = [_path_of(PRELOADED[name][0], command) for name in names if name in PRELOADED]
    if not libraries:
        return kept
    before = os.environ.get("LD_PRELOAD", "").split()
    every = dict.fromkeys([*libraries, _path_of(CPP_LIBRARY, command), *before])
    options = [DEFAULT_OPTIONS[name] for name in names if name in DEFAULT_OPTIONS]
    return {"LD_PRELOAD": " ".join(every), **kept, **{k: os.environ.get(k, value) for k, value in options}}


def _path_of(library: str, command: Sequence[str]) -> str:
    try:
        path = run_command([*command, f"-print-file-name={library}"], _PROBE_SECONDS).output.strip()
    except CommandError as error:
        raise UserError(f"{VARIABLE}: {' '.join(command)} does not print where {library} is: {error}") from error
    if not os.path.isabs(path):
        raise UserError(f"{VARIABLE}: {' '.join(command)} has no {library}; install it (in Debian, with gcc itself)")
    return path


GUARD = 512  # bytes before and behind each buffer that nobody may touch
GUARD_BUFFER = f"""void __asan_poison_memory_region(const volatile void *place, size_t bytes);
void __asan_unpoison_memory_region(const volatile void *place, size_t bytes);

/* Have the address sanitizer refuse what lies within {GUARD} bytes before and behind a buffer. */
static inline void guard_buffer(const void *buffer, int64_t bytes) {{
  const uint8_t *place = buffer;
  __asan_poison_memory_region(place - {GUARD}, {GUARD});
  __asan_unpoison_memory_region(place, (size_t)bytes);
  __asan_poison_memory_region(place + bytes, {GUARD});
}}
"""
