"""Folders that go away. Source: ``tvm.contrib.utils``."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path


class TempDirectory:
    """A folder that is removed with this object, or when its ``with`` block ends."""

    def __init__(self, custom_path: str | os.PathLike[str] | None = None):
        self._owner: tempfile.TemporaryDirectory[str] | None = None
        if custom_path is None:
            made = tempfile.TemporaryDirectory(prefix="byoc-")
            self._owner, self.temp_dir = made, made.name
        else:
            self.temp_dir = os.fspath(custom_path)
        Path(self.temp_dir).mkdir(parents=True, exist_ok=True)

    @property
    def path(self) -> str:
        return self.temp_dir

    def remove(self) -> None:
        """Remove the folder and all in it."""
        if self._owner is not None:
            self._owner.cleanup()
        else:
            shutil.rmtree(self.temp_dir, ignore_errors=True)

    def relpath(self, name: str) -> str:
        """The path of *name* in the folder."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """The names in the folder."""
        return sorted(os.listdir(self.temp_dir))

    def __truediv__(self, name: str) -> Path:
        return Path(self.temp_dir) / name

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def tempdir(custom_path: str | os.PathLike[str] | None = None, keep_for_debug: bool | None = None) -> TempDirectory:
    """A temporary folder, or *custom_path* made into one. Source: ``tvm.contrib.utils.tempdir``."""
    if keep_for_debug and custom_path is None:
        custom_path = tempfile.mkdtemp(prefix="byoc-")
    return TempDirectory(custom_path)


__all__ = ["TempDirectory", "tempdir"]
