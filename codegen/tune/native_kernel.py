"""A compiled kernel on arrays that are bound once: called by this thread, or by a team of threads as the model is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cffi
import numpy as np

from byoc.codegen.tune.arrays import aligned
from byoc.runtime.core.errors import ArtifactError, UnavailableError
from byoc.runtime.core.signature import Signature
from byoc.runtime.dso.library_file import LibraryFile
from byoc.runtime.dso.run_state import RunState

Run = Callable[[], None]
_FFI = cffi.FFI()
_KERNEL = """
int32_t {symbol}(void **args, const int64_t *sizes, uint8_t *workspace, const void *team);
int64_t {symbol}_workspace(const int64_t *sizes);
"""
_TEAM = """
void *pool_new(int64_t threads, void *run);
void pool_free(void *pool);
int32_t pool_run(void *pool, void *program, void **args, const int64_t *sizes, uint8_t *workspace, void *externals);
int32_t run_kernel(void **args, const int64_t *sizes, uint8_t *workspace, const void *team, void *externals);
"""


class KernelTeam:
    """So many *threads* that run kernels together; *library* is that of ``kernel_team_source``, needed for two or more.

    Raises UnavailableError where the system does not give the threads.
    """

    def __init__(self, threads: int, library: bytes | None = None):
        self.threads = threads
        self._pool = None
        self._state = RunState()
        if threads > 1:
            if library is None:
                raise ArtifactError("a team of several threads needs its library")
            self._handle = LibraryFile(library).open(_TEAM)
            self._pool = self._handle.pool_new(threads, self._state.struct)
            if self._pool == _FFI.NULL:
                raise UnavailableError(f"the system gives no {threads} threads")

    def bound(self, handle: object, signature: Signature, arrays: Sequence[np.ndarray]) -> Run:
        """A call of the kernel of *signature* in the opened library *handle*; *arrays*: inputs, constants, outputs."""
        sizes = signature.bind_sizes(arrays[: len(signature.inputs)])
        size_args = _FFI.new("int64_t[]", [sizes[n] for n in signature.size_names])
        kernel, need = (getattr(handle, signature.symbol + end) for end in ("", "_workspace"))
        memory = aligned((int(need(size_args)),), np.dtype("uint8"))
        workspace = _FFI.cast("uint8_t *", memory.ctypes.data)
        args = _FFI.new("void *[]", [_FFI.cast("void *", a.ctypes.data) for a in arrays])
        kept = (handle, tuple(arrays), memory)  # to whose memory the call points
        if self._pool is None:
            alone = self._state.alone

            def run_alone(_kept: object = kept) -> None:
                kernel(args, size_args, workspace, alone)

            return run_alone
        run, pool = self._handle.pool_run, self._pool
        program = _FFI.cast("void *", self._handle.run_kernel)
        functions = _FFI.new("void *[1]", [_FFI.cast("void *", kernel)])
        table = _FFI.new("void *[2]", [functions, _FFI.NULL])

        def run_together(_kept: object = (*kept, functions)) -> None:
            run(pool, program, args, size_args, workspace, table)

        return run_together

    def end(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._handle.pool_free(self._pool)
            self._pool = None


def opened(library: bytes, symbols: Sequence[str]) -> object:
    """A library with the kernels *symbols*. Raises ArtifactError where it cannot be loaded."""
    return LibraryFile(library).open("".join(_KERNEL.format(symbol=s) for s in symbols))
