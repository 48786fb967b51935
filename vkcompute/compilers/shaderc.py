"""shaderc as a shared library in this process, through its C API (shaderc/shaderc.h).

Some libraries cannot be loaded: Debian 12 ships one that lacks symbols.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import sys
from dataclasses import dataclass, field

from vkcompute.compilers.compiler import CompileResult, fingerprint

logger = logging.getLogger(__name__)

LIBRARY_NAMES = {
    "win32": ("shaderc_shared.dll",),
    "darwin": ("libshaderc_shared.1.dylib", "libshaderc_shared.dylib"),
}.get(sys.platform, ("libshaderc_shared.so.1", "libshaderc.so.1", "libshaderc_shared.so", "libshaderc.so"))

_COMPUTE = 2  # shaderc_glsl_compute_shader
_VULKAN = 0  # shaderc_target_env_vulkan
_OPTIMIZE = {False: 0, True: 2}  # shaderc_optimization_level_zero, _performance
_SUCCESS = 0  # shaderc_compilation_status_success

_POINTER, _INT, _UINT, _SIZE, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_char_p

# name: (result, *arguments)
_SIGNATURES: dict[str, tuple[type | None, ...]] = {
    "shaderc_compiler_initialize": (_POINTER,),
    "shaderc_compile_options_initialize": (_POINTER,),
    "shaderc_compile_options_release": (None, _POINTER),
    "shaderc_compile_options_set_optimization_level": (None, _POINTER, _INT),
    "shaderc_compile_options_set_target_env": (None, _POINTER, _INT, _UINT),
    "shaderc_compile_into_spv": (_POINTER, _POINTER, _TEXT, _SIZE, _INT, _TEXT, _TEXT, _POINTER),
    "shaderc_result_release": (None, _POINTER),
    "shaderc_result_get_length": (_SIZE, _POINTER),
    "shaderc_result_get_bytes": (_POINTER, _POINTER),
    "shaderc_result_get_compilation_status": (_INT, _POINTER),
    "shaderc_result_get_error_message": (_TEXT, _POINTER),
    "shaderc_get_spv_version": (None, ctypes.POINTER(ctypes.c_uint), ctypes.POINTER(ctypes.c_uint)),
}


@dataclass(frozen=True, slots=True)
class Shaderc:
    """A loaded library. `compile` may be called from several threads at once."""

    path: str
    identity: str
    library: ctypes.CDLL = field(repr=False, compare=False)
    compiler: int = field(repr=False, compare=False)  # shaderc_compiler_t; lives as long as the process
    name = "shaderc"

    def version(self) -> str:
        """The SPIR-V version and revision that the library writes; its API gives no other version."""
        version, revision = ctypes.c_uint(), ctypes.c_uint()
        self.library.shaderc_get_spv_version(ctypes.byref(version), ctypes.byref(revision))
        return f"shaderc library, SPIR-V {version.value >> 16}.{version.value >> 8 & 255} revision {revision.value}"

    def compile(self, text: str, target: str, optimize: bool) -> CompileResult:
        """Compiles for `target`, e.g. "vulkan1.2"."""
        source = text.encode()
        major, minor = (int(part) for part in target.removeprefix("vulkan").split("."))
        options = self.library.shaderc_compile_options_initialize()
        try:
            self.library.shaderc_compile_options_set_optimization_level(options, _OPTIMIZE[optimize])
            self.library.shaderc_compile_options_set_target_env(options, _VULKAN, major << 22 | minor << 12)
            result = self.library.shaderc_compile_into_spv(
                self.compiler, source, len(source), _COMPUTE, b"0", b"main", options
            )
        finally:
            self.library.shaderc_compile_options_release(options)
        try:
            return self._result(result)
        finally:
            self.library.shaderc_result_release(result)

    def _result(self, result: int) -> CompileResult:
        log = (self.library.shaderc_result_get_error_message(result) or b"").decode("utf-8", "replace")
        if self.library.shaderc_result_get_compilation_status(result) != _SUCCESS:
            return CompileResult(None, log)
        nbytes = self.library.shaderc_result_get_length(result)
        return CompileResult(ctypes.string_at(self.library.shaderc_result_get_bytes(result), nbytes), log)


@functools.cache
def load(name: str) -> Shaderc | str:
    """The library `name` (a path, or a name for the system's loader), or a sentence with the reason of the failure."""
    try:
        library = ctypes.CDLL(name)
        for function, (result, *arguments) in _SIGNATURES.items():
            entry = getattr(library, function)
            entry.restype, entry.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        logger.debug("shaderc library %s: %s", name, error)
        return str(error)
    compiler = library.shaderc_compiler_initialize()
    if not compiler:
        return f"{name}: shaderc_compiler_initialize failed"
    path = _file_of(library) or name
    return Shaderc(path, f"shaderc:{_fingerprint(path)}", library, compiler)


def _fingerprint(path: str) -> str:
    try:
        return fingerprint(path)
    except OSError:  # a name without a path, which the loader resolves
        return path


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("dli_fname", ctypes.c_char_p),
        ("dli_fbase", ctypes.c_void_p),
        ("dli_sname", ctypes.c_char_p),
        ("dli_saddr", ctypes.c_void_p),
    )


def _file_of(library: ctypes.CDLL) -> str | None:
    """The file of a loaded library."""
    if sys.platform == "win32":
        buffer = ctypes.create_unicode_buffer(32768)
        length = ctypes.windll.kernel32.GetModuleFileNameW(ctypes.c_void_p(library._handle), buffer, len(buffer))
        return buffer.value if length else None
    info = _DlInfo()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = (ctypes.c_void_p, ctypes.POINTER(_DlInfo))
    address = ctypes.cast(library.shaderc_compiler_initialize, ctypes.c_void_p)
    file_name = dladdr(address, ctypes.byref(info)) and info.dli_fname
    return str(info.dli_fname, "utf-8", "surrogateescape") if file_name else None
