"""The one door to the `vulkan` binding: raw calls, structures whose pointees stay alive, and result checks.

The binding's own wrappers are not used: they are several times slower than the raw calls, drop the pointees of nested
structures, and map some result codes wrongly. What is used of it is its cffi `ffi` (the types) and `lib` (the loader).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NoReturn

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
"""Takes a function's name and the raw function, returns what is to be called in its place."""

interceptors: list[Wrapper] = []
"""The seam for injected faults: applied, last, to every function of each table that is made from now on."""

_pointees: weakref.WeakKeyDictionary[Any, tuple[Any, ...]] = weakref.WeakKeyDictionary()

_TYPE_PREFIX = "VK_STRUCTURE_TYPE_"
_structure_types: dict[str, int] = {
    name[len(_TYPE_PREFIX) :].replace("_", ""): value
    for name, value in vars(binding).items()
    if name.startswith(_TYPE_PREFIX)
}


def constant(name: str) -> int:
    """The value of an enumerant or flag bit, e.g. `constant("VK_QUEUE_COMPUTE_BIT")`."""
    return int(getattr(binding, name))


def structure_type(struct_name: str) -> int | None:
    """The sType of a structure, or None for one that has no such member."""
    # VkPhysicalDeviceVulkan12Features is ..._PHYSICAL_DEVICE_VULKAN_1_2_FEATURES: alike but for the underscores.
    return _structure_types.get(struct_name[2:].upper())


def struct(name: str, **fields: Any) -> Any:
    """A pointer to a new Vulkan structure, zeroed but for `fields`, with sType set.

    A string becomes a C string; a list or tuple becomes an array (of the pointed-to type where the field is a pointer);
    a structure pointer stays one, or is copied where the field holds the structure itself. Everything that the fields
    point to lives as long as the returned pointer.
    """
    pointer = ffi.new(f"{name}*")
    members = dict(ffi.typeof(name).fields)
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
    """A C array of `values`; strings become C strings, pointers to structures are copied in; pointees stay alive."""
    kind = ffi.typeof(item)
    kept: list[Any] = []
    items = [_to_field(value, kind, kept) for value in values]
    result = ffi.new(f"{item}[]", items)
    _pointees[result] = tuple(kept)
    return result


def enumerate_all(call: str, item: str, *args: Any, function: Any = None) -> list[Any]:
    """The items of a two-call enumeration (how many, then which) by the function `call`: the loader's, or the given."""
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
    return [ffi.new(f"{item}*", items[i])[0] for i in range(count[0])]  # of their own: the array dies here


def to_python(value: Any) -> Any:
    """A Vulkan structure as plain data: numbers, strings, tuples, and dicts without sType and pNext."""
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
    """The names of the bits set in `bits`, e.g. flags("VK_QUEUE_", 2) -> ("COMPUTE",)."""
    return tuple(name for bit, name in _bits(prefix) if bit & bits)


def version(packed: int) -> tuple[int, int, int]:
    """A packed Vulkan version as (major, minor, patch)."""
    return (packed >> 22) & 0x7F, (packed >> 12) & 0x3FF, packed & 0xFFF


@cache
def _result_names() -> dict[int, str]:
    """Errors and the few other results of our calls. The binding has some of the errors with the wrong sign."""
    errors = {name: value for name, value in vars(binding).items() if name.startswith("VK_ERROR_")}
    others = ("VK_SUCCESS", "VK_NOT_READY", "VK_TIMEOUT", "VK_INCOMPLETE")
    # Of several names of one code the binding has the core's own first.
    found = {-abs(value): name for name, value in reversed(errors.items()) if isinstance(value, int)}
    return found | {constant(name): name for name in others}


def result_name(result: int) -> str:
    """The name of a VkResult."""
    return _result_names().get(result, f"VkResult {result}")


def check(result: int, call: str, target: object = "") -> int:
    """Raises where a call failed; returns the result, which may be a positive status such as VK_TIMEOUT (2).

    Raises:
        DeviceLost: VK_ERROR_DEVICE_LOST.
        VulkanError: any other negative result.
    """
    if result < 0:
        _raise(result, call, target)
    return result


def _raise(result: int, call: str, target: object) -> NoReturn:
    name = result_name(result)
    if name == "VK_ERROR_DEVICE_LOST":
        raise DeviceLost(name, call, str(target), "close this runtime and open a new one")
    raise VulkanError(name, call, str(target))


class Functions:
    """A driver's functions as attributes, each loaded when it is first asked for.

    Args:
        address: the driver's own lookup of a name.
        wrappers: put around each, and those of `interceptors` around these.
    """

    def __init__(self, address: Callable[[Any], Any], wrappers: Iterable[Wrapper] = ()) -> None:
        self._address, self._around = address, (*wrappers, *interceptors)

    def __getattr__(self, name: str) -> Any:
        pointer = self._address(ffi.new("char[]", name.encode())) if name.startswith("vk") else NULL
        if pointer == NULL:
            raise AttributeError(f"{name} is not offered by this driver")
        function: Callable[..., Any] = ffi.cast(f"PFN_{name}", pointer)
        for wrap in self._around:
            function = wrap(name, function)
        setattr(self, name, function)
        return function
