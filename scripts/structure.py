"""Prints figures of the code's structure: `python scripts/structure.py`; with `--walks`, also of calls on a device."""

from __future__ import annotations

import re
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from import_graph import ROOT, imports, modules
from page_tables import table

SHORT, LONG = 40, 500
NAMES = "found", "each", "place", "places", "placed"
"""Words that say nothing about the thing that they name."""
_GIVEN = re.compile(
    r"__main__|_version|dask_sizeof|blocks/language/math|numpy/.*|torch/__main__|compat/cuda|compat/cupyx?/.*"
    r"|compat/numba/(config|cuda/(devicearray|driver|transposition))|compat/triton/(language|backends|compiler|runtime|tools)/.*"
)
"""Modules whose path is that of another library, or of Python."""


def sizes() -> dict[str, int]:
    """Returns the lines of the package's modules, by their paths, without `__init__`."""
    paths = [path for path in modules().values() if path.name != "__init__.py"]
    return {
        str(path.relative_to(ROOT / "vkcompute").with_suffix("")): len(path.read_text("utf-8").splitlines())
        for path in paths
    }


def uses(name: str) -> int:
    """Returns how often the project's Python files have a name, outside of texts."""
    folders = "vkcompute", "scripts", "tools", "tests", "examples", "benchmarks"
    count = 0
    for path in [path for folder in folders for path in (ROOT / folder).rglob("*.py")]:
        with path.open("rb") as file:
            parts = tokenize.tokenize(file.readline)
            count += sum(part.type == tokenize.NAME and part.string == name for part in parts)
    return count


def walk(call: Callable[[], Any]) -> set[str]:
    """Returns the package's files whose functions run in a warm call."""
    files = set[str]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    for _ in range(6):  # a series of launches becomes one command at its third call
        call()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {str(Path(file).relative_to(ROOT)) for file in files if file.startswith(str(ROOT / "vkcompute"))}


def calls() -> dict[str, Callable[[], Any]]:
    """Returns the calls of the table, on the default device."""
    import vkcompute as vc
    import vkcompute.numpy as vnp
    from vkcompute.compat import triton
    from vkcompute.compat.triton import language as tl

    @triton.jit
    def copy_block(x_ptr, out_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def, valid-type] # noqa: ANN001, ANN202, N803
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + at, tl.load(x_ptr + at))

    @vc.kernel
    def copy(x: Any, out: Any) -> None:
        i = vc.global_id(0)
        out[i] = x[i]

    gpu = vc.default_runtime()
    x, y, out = (gpu.full((64, 64), value) for value in (1.0, 2.0, 0.0))
    flat, flat_out = x.reshape(-1), out.reshape(-1)
    return {
        "`(x + y).numpy()`": lambda: (x + y).numpy(),
        "`vnp.sort(x)`": lambda: vnp.sort(x),
        "a block program": lambda: copy_block[(4,)](x, out, BLOCK=1024),
        "a kernel's launch": lambda: copy(flat, flat_out, grid=64, local_size=64),
    }


def figures() -> list[tuple[str, str]]:
    """Returns the rows of the table of files and names."""
    lines = sizes()
    short = [path for path, n in lines.items() if n < SHORT]
    own = [path for path in short if not _GIVEN.fullmatch(path)]
    many = Counter(one.source for one in {(one.source, one.target): one for one in imports()}.values())
    counts = [n for name, n in many.items() if modules()[name].name != "__init__.py"]
    return [
        ("lines of the package", str(sum(lines.values()))),
        ("files", str(len(lines))),
        (f"files under {SHORT} lines; of these, with paths of our own", f"{len(short)}; {len(own)}"),
        (f"files over {LONG} lines", str(sum(n > LONG for n in lines.values()))),
        ("modules that a module imports from: median, most", f"{statistics.median(counts):g}, {max(counts)}"),
        *[(f"the name `{name}`", str(uses(name))) for name in NAMES],
    ]


def main() -> None:
    """Prints the table."""
    rows = figures()
    if "--walks" in sys.argv:
        rows += [(f"files that {name} walks through", str(len(walk(call)))) for name, call in calls().items()]
        if "--list" in sys.argv:
            for name, call in calls().items():
                print(f"{name}:", *sorted(walk(call)), sep="\n    ")
    print(table(("figure", "now"), rows))
    if "--list" in sys.argv:
        print(*sorted(f"{n:4} {path}" for path, n in sizes().items() if n < SHORT or n > LONG), sep="\n")


if __name__ == "__main__":
    main()
