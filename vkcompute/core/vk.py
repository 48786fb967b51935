"""The only importer of the `vulkan` package: raw calls, structures that keep their pointees alive, result checks.

Only its cffi `ffi` (types) and `lib` (the loader) are used. Its wrappers are several times slower than raw calls, free
the pointees of nested structures, and map some result codes wrongly.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from vkcompute.errors import DeviceLost, NoVulkanLoader, VulkanError

try:
    from vulkan import _vulkan as binding
except OSError as error:
    raise NoVulkanLoader(
        "no Vulkan loader (libvulkan.so.1, vulkan-1.dll or libvulkan.dylib) on this machine; install the GPU vendor's "
        "driver, or a software one: Debian and Ubuntu `apt install libvulkan1 mesa-vulkan-drivers`, Fedora `dnf "
        "install vulkan-loader mesa-vulkan-drivers`, macOS `brew install vulkan-loader molten-vk`"
    ) from error

ffi: Any = binding.ffi
lib: Any = binding.lib
NULL: Any = ffi.NULL

Wrapper = Callable[[str, Callable[..., Any]], Callable[..., Any]]
"""Takes a function's name and the raw function; returns the function to call instead."""

interceptors: list[Wrapper] = []
"""For fault injection in tests: wraps every function of each later `Functions`, outside of all other wrappers."""

_pointees: weakref.WeakKeyDictionary[Any, tuple[Any, ...]] = weakref.WeakKeyDictionary()

_TYPE_PREFIX = "VK_STRUCTURE_TYPE_"
_structure_types: dict[str, int] = {
    name[len(_TYPE_PREFIX) :].replace("_", ""): value
    for name, value in vars(binding).items()
    if name.startswith(_TYPE_PREFIX)
}
# Structures that the package's headers are too old for: sType, and the members behind pNext.
_NEWER: dict[str, tuple[int, str]] = {
    "VkPhysicalDeviceShaderBfloat16FeaturesKHR": (
        1000141000,
        "uint32_t shaderBFloat16Type, shaderBFloat16DotProduct, shaderBFloat16CooperativeMatrix;",
    ),
}


def constant(name: str) -> int:
    """Returns the value of an enumerant or flag bit, e.g. `constant("VK_QUEUE_COMPUTE_BIT")`."""
    return int(getattr(binding, name))


def promoted(name: str) -> str:
    """Returns the name that a structure of an extension has as a part of Vulkan."""
    return name.removesuffix("KHR").removesuffix("EXT")


def structure_type(struct_name: str) -> int | None:
    """Returns the sType of a structure; None if it has no such member."""
    if struct_name in _NEWER:
        return _NEWER[struct_name][0]
    # VkPhysicalDeviceVulkan12Features has ..._PHYSICAL_DEVICE_VULKAN_1_2_FEATURES: equal without underscores.
    known = _structure_types.get(struct_name[2:].upper())
    # The package has None for the types of structures that have become a part of Vulkan: they have these.
    return _structure_types.get(promoted(struct_name)[2:].upper()) if known is None else known


@cache
def _pointer_type(struct_name: str) -> Any:
    """Returns the type of pointers to a structure."""
    if struct_name not in _NEWER:
        return ffi.typeof(f"{struct_name}*")
    from cffi import FFI  # not at import: its parser takes 60 ms, and few devices need it

    declared = FFI()
    declared.cdef(f"typedef struct {{ int sType; void *pNext; {_NEWER[struct_name][1]} }} {struct_name};")
    return declared.typeof(f"{struct_name}*")


def struct(name: str, **fields: Any) -> Any:
    """Returns a pointer to a new Vulkan structure with these fields and its sType; the other fields are zero.

    Strings become C strings. A list or tuple for a pointer field becomes an array of the pointed-to type. A structure
    pointer is dereferenced for a field that embeds the structure. The pointer keeps everything it points to alive.
    """
    kind = _pointer_type(name)
    pointer = ffi.new(kind)
    members = dict(kind.item.fields)
    if "sType" in members:
        pointer.sType = structure_type(name)
    kept: list[Any] = []
    for field, value in fields.items():
        setattr(pointer, field, _to_field(value, members[field].type, kept))
    if kept:
        _pointees[pointer] = tuple(kept)
    return pointer


def _to_field(value: Any, kind: Any, kept: list[Any]) -> Any:
    if isinstance(value, str):
        value = ffi.new("char[]", value.encode())
    elif isinstance(value, (list, tuple)) and kind.kind == "pointer":
        value = array(kind.item.cname, value) if value else NULL
    elif isinstance(value, ffi.CData) and kind.kind == "struct":
        kept.extend(_pointees.get(value, ()))
        return value[0]
    if isinstance(value, ffi.CData):
        kept.append(value)
    return value


def array(item: str, values: Iterable[Any]) -> Any:
    """Returns a C array of `values`, converted as by `struct`. It keeps their pointees alive."""
    kind = ffi.typeof(item)
    kept: list[Any] = []
    items = [_to_field(value, kind, kept) for value in values]
    result = ffi.new(f"{item}[]", items)
    _pointees[result] = tuple(kept)
    return result


def enumerate_all(call: str, item: str, *args: Any, function: Any = None) -> list[Any]:
    """Returns the items of a two-call enumeration (count, then items) by `function`, or the loader's named `call`."""
    function = function or getattr(lib, call)
    count = ffi.new("uint32_t*")
    check(function(*args, count, NULL) or 0, call)
    items = ffi.new(f"{item}[]", count[0])
    if (kind := structure_type(item)) is not None:
        for entry in items:
            entry.sType = kind
    check(function(*args, count, items) or 0, call)
    if ffi.typeof(item).kind != "struct":
        return list(items[0 : count[0]])
    return [ffi.new(f"{item}*", items[i])[0] for i in range(count[0])]  # copies: the array is freed here


def to_python(value: Any) -> Any:
    """Converts a Vulkan structure to plain data: numbers, strings, tuples, and dicts without sType and pNext."""
    if not isinstance(value, ffi.CData):
        return value
    kind = ffi.typeof(value)
    if kind.kind in ("struct", "union"):
        return {name: to_python(getattr(value, name)) for name, _ in kind.fields if name not in ("sType", "pNext")}
    if kind.kind == "array":
        if kind.item.cname == "char":
            return str(ffi.string(value).decode(errors="replace"))
        return tuple(to_python(item) for item in value)
    return None if value == NULL else value


@cache
def _bits(prefix: str) -> tuple[tuple[int, str], ...]:
    named = {
        (value, name[len(prefix) : -4])
        for name, value in vars(binding).items()
        if name.startswith(prefix) and name.endswith("_BIT") and isinstance(value, int)
    }
    return tuple(sorted(named))


def flags(prefix: str, bits: int) -> tuple[str, ...]:
    """Returns the names of the set bits, e.g. flags("VK_QUEUE_", 2) -> ("COMPUTE",)."""
    return tuple(name for bit, name in _bits(prefix) if bit & bits)


def version(packed: int) -> tuple[int, int, int]:
    """Unpacks a Vulkan version to (major, minor, patch)."""
    return (packed >> 22) & 0x7F, (packed >> 12) & 0x3FF, packed & 0xFFF


@cache
def _result_names() -> dict[int, str]:
    """Returns the names of errors, and of the other results in use. The binding has some errors with the wrong sign."""
    errors = {name: value for name, value in vars(binding).items() if name.startswith("VK_ERROR_")}
    others = ("VK_SUCCESS", "VK_NOT_READY", "VK_TIMEOUT", "VK_INCOMPLETE")
    # Among aliases, the binding lists the core name first.
    names = {-abs(value): name for name, value in reversed(errors.items()) if isinstance(value, int)}
    return names | {constant(name): name for name in others}


def result_name(result: int) -> str:
    """Returns the name of a VkResult."""
    return _result_names().get(result, f"VkResult {result}")


def check(result: int, call: str, target: object = "") -> int:
    """Raises an error if the call failed; else returns the result, which may be a status such as VK_TIMEOUT (2).

    Raises:
        DeviceLost: VK_ERROR_DEVICE_LOST.
        VulkanError: any other negative result.
    """
    if result >= 0:
        return result
    name = result_name(result)
    if name == "VK_ERROR_DEVICE_LOST":
        raise DeviceLost(name, call, str(target), "close this runtime and open a new one")
    raise VulkanError(name, call, str(target))


class Functions:
    """A driver's functions as attributes, each loaded on first use.

    Args:
        address: looks up a function by name.
        wrappers: applied to each function, before those of `interceptors`.
    """

    def __init__(self, address: Callable[[Any], Any], wrappers: Iterable[Wrapper] = ()) -> None:
        self._address, self._wrappers = address, (*wrappers, *interceptors)

    def __getattr__(self, name: str) -> Any:
        pointer = self._address(ffi.new("char[]", name.encode())) if name.startswith("vk") else NULL
        if pointer == NULL:
            raise AttributeError(f"this driver has no function {name}")
        function: Callable[..., Any] = ffi.cast(f"PFN_{name}", pointer)
        for wrap in self._wrappers:
            function = wrap(name, function)
        setattr(self, name, function)
        return function
