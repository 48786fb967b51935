"""Kernels that are compiled again when their file changes, for development."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vkcompute.compilers import preprocessor
from vkcompute.errors import shorten_traceback
from vkcompute.runtime.launching.kernel import Kernel
from vkcompute.runtime.launching.launch_config import Launchable, LaunchConfig
from vkcompute.runtime.scheduling.future import Future

_Stamp = dict[str, tuple[int, int]]
"""file -> time of its last change, in nanoseconds, and its size in bytes"""


class ReloadingKernel(Launchable):
    """A kernel made by `Runtime.kernel(path, reload=True)`: each launch looks at the file and at those it includes.

    Attributes:
        path: the file.
        kernel: the `Kernel` of the file as it is now. Other attributes are those of this kernel.
    """

    def __init__(self, path: Path, load: Callable[[], Kernel]) -> None:
        self.path, self._load = path, load
        self._stamp: _Stamp = {}
        self._kernel = self.kernel

    @property
    def kernel(self) -> Kernel:
        """Returns the kernel, compiled again if a file has changed.

        Raises:
            CompileError, SpirvError, OSError: the file as it is now cannot be used; a launch after a correction can.
        """
        if not self._stamp or any(_stamp_of(file) != stamp for file, stamp in self._stamp.items()):
            self._stamp = {}
            stamp = {file: _stamp_of(file) for file in _files(self.path)}  # before it is read: a later change counts
            self._kernel = self._load()
            self._stamp = stamp
        return self._kernel

    def __call__(self, *args: Any, **named: Any) -> Future:
        """Launches the kernel of the file as it is now; see `Kernel`."""
        try:
            return self.kernel(*args, **named)
        except Exception as error:
            shorten_traceback(error)
            raise

    def _launch_with(self, config: LaunchConfig, *args: Any, **named: Any) -> Future:
        return self.kernel._launch_with(config, *args, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.kernel, name)

    def __repr__(self) -> str:
        return f"<kernel of {self.path}, reloaded when it changes>"


def _stamp_of(file: str) -> tuple[int, int]:
    try:
        info = os.stat(file)
    except FileNotFoundError:
        return 0, -1
    return info.st_mtime_ns, info.st_size


def _files(path: Path) -> list[str]:
    """Returns the file and, for GLSL, those that it includes."""
    if path.suffix != ".comp":
        return [str(path)]
    text, folder = preprocessor.main_text(path, path.name)
    unit = preprocessor.preprocess(text, folder, None, ())
    return [str(path), *[file.name for file in unit.files.values() if os.path.exists(file.name)]]
