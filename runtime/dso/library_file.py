"""A shared library in a private file, opened by declarations; the file is removed when the process ends."""

from __future__ import annotations

import atexit
import os
import tempfile

import cffi

from byoc.runtime.errors import ArtifactError, UnavailableError


class LibraryFile:
    """The bytes of a shared library as a file. Raises UnavailableError where no file can be written."""

    def __init__(self, library: bytes):
        try:
            handle, self._path = tempfile.mkstemp(prefix="byoc_", suffix=".so")
            atexit.register(_remove, self._path)
            with os.fdopen(handle, "wb") as file:
                file.write(library)
        except OSError as error:
            raise UnavailableError(
                f"the folder for temporary files cannot be written ({error.strerror}): name another with TMPDIR"
            ) from error

    def open(self, declarations: str) -> object:
        """The functions of *declarations*, as attributes; the library stays loaded as long as one is open.

        Raises ArtifactError when the library cannot be loaded.
        """
        ffi = cffi.FFI()
        ffi.cdef(declarations)
        try:
            return ffi.dlopen(self._path)
        except OSError as error:
            raise ArtifactError(f"the compiled library cannot be loaded on this machine: {error}") from error


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.remove(path)
