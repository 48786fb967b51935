"""Search for a GLSL compiler: a named one, else the shaderc library, glslc, glslang, in this order."""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
from pathlib import Path

from vkcompute.compilers import shaderc
from vkcompute.compilers.command_line import Glslang, Glslc, run
from vkcompute.compilers.compiler import Compiler, fingerprint
from vkcompute.errors import CompileError, NoCompiler

PROGRAMS: tuple[tuple[str, type[Glslc] | type[Glslang]], ...] = (
    ("glslc", Glslc),
    ("glslangValidator", Glslang),
    ("glslang", Glslang),
)

_INSTALL = """\
install one:
  Debian, Ubuntu: apt install glslang-tools;
  Fedora: dnf install glslang;
  macOS: brew install glslang;
  Windows: the Vulkan SDK of LunarG;
or name one with compiler=... or with the environment variable VKCOMPUTE_GLSLC."""
_LIBRARY = re.compile(r"\.(?:so(?:\.\d+)*|dylib|dll)\Z")


def find(explicit: str | os.PathLike[str] | None = None) -> Compiler:
    """The compiler `explicit`, else the one that VKCOMPUTE_GLSLC names, else the first one installed.

    Raises:
        NoCompiler: none is installed, or the named one is unusable; the message lists every attempt.
    """
    named = os.fspath(explicit) if explicit is not None else None
    environment = os.environ.get("VKCOMPUTE_GLSLC")
    return _find(named, environment, os.environ.get("PATH", ""), os.environ.get("VULKAN_SDK", ""))


@functools.lru_cache(maxsize=16)
def _find(named: str | None, environment: str | None, path: str, sdk: str) -> Compiler:
    """`find` with all of its inputs as arguments, so that the result can be cached."""
    if named is not None:
        return _named(named, "compiler", path)
    if environment:
        return _named(environment, "VKCOMPUTE_GLSLC", path)
    tried = []
    for name in (*_sdk_libraries(sdk), *shaderc.LIBRARY_NAMES):
        library = shaderc.load(name)
        if not isinstance(library, str):
            return library
        tried.append(library)
    search = os.pathsep.join(filter(None, [*_sdk_folders(sdk), path]))  # an empty entry means the working folder
    for program, kind in PROGRAMS:
        installed = _installed(program, search)
        if installed is not None:
            return kind(installed, f"{kind.name}:{fingerprint(installed)}")
        tried.append(f"{program}: not on PATH")
    raise NoCompiler("\n  ".join(["no GLSL compiler on this machine; tried", *tried]) + f";\n{_INSTALL}")


def _installed(program: str, search: str) -> str | None:
    """The path of a program in a list of folders; None if it is in none of them."""
    path = shutil.which(program, path=search)
    # Windows tries the working folder first, whether it is in the list or not.
    is_named = path is None or os.path.dirname(path) != os.curdir or os.curdir in search.split(os.pathsep)
    return path if is_named else None


def _named(name: str, origin: str, path: str) -> Compiler:
    """The compiler that the user named: a library, or a program by path or name."""
    if _LIBRARY.search(name):
        library = shaderc.load(name)
        if isinstance(library, str):
            raise NoCompiler(f"{origin}={name!r} is no usable shaderc library: {library};\n{_INSTALL}")
        return library
    executable = shutil.which(name, path=path)
    if executable is None:
        raise NoCompiler(f"{origin}={name!r} is no executable program;\n{_INSTALL}")
    kind = _kind(executable)
    if kind is None:
        raise NoCompiler(f"{origin}={name!r} is a program, but neither glslc nor glslang;\n{_INSTALL}")
    return kind(executable, f"{kind.name}:{fingerprint(executable)}")


def _kind(program: str) -> type[Glslc] | type[Glslang] | None:
    """The class for a program, by its file name, else by its --version output (for a wrapper)."""
    return _kind_in(Path(program).name) or _kind_in(_version_text(program))


def _kind_in(text: str) -> type[Glslc] | type[Glslang] | None:
    text = text.lower()
    if text.startswith("glslang") or "glslang version" in text:
        return Glslang
    return Glslc if text.startswith("glslc") or "shaderc " in text else None


def _version_text(program: str) -> str:
    try:
        return run([program, "--version"])[1]
    except CompileError:  # it cannot be run
        return ""


def _sdk_folders(sdk: str) -> list[str]:
    return [os.path.join(sdk, "Bin" if sys.platform == "win32" else "bin")] if sdk else []


def _sdk_libraries(sdk: str) -> list[str]:
    folder = "Bin" if sys.platform == "win32" else "lib"
    files = [os.path.join(sdk, folder, name) for name in shaderc.LIBRARY_NAMES] if sdk else []
    return [file for file in files if os.path.isfile(file)]
