"""Prints the table of NumPy's functions in docs/arrays.md: `python scripts/numpy_table.py`."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import page_tables

import vkcompute.numpy as vnp

START, END = "<!-- table: scripts/numpy_table.py -->", "<!-- end of the table -->"
ON_HOST = {
    "array2string", "load", "loadtxt", "poly", "polydiv", "polyfit", "roots", "save", "savetxt", "savez",
    "savez_compressed",
}  # fmt: skip
"""Functions that compute with a copy on the host, or read and write files."""
_REMOVED = {"row_stack"}
"""Functions that NumPy 2.5 has no more."""


def functions() -> list[str]:
    """Returns the names of NumPy's functions."""
    names = [name for name in np.__all__ if callable(getattr(np, name)) and not isinstance(getattr(np, name), type)]
    return sorted(name for name in names if name not in _REMOVED and not isinstance(getattr(np, name), ModuleType))


def table() -> str:
    """Returns the table: the functions that are here, those that use the host, and those that are not here."""
    names = functions()
    here = [name for name in names if name in dir(vnp)]
    rows = {
        "on the device": [name for name in here if name not in ON_HOST],
        "on the host: data is downloaded, or read from a file": [name for name in here if name in ON_HOST],
        "not here: an error names the remedy, or a warning says that it computes on the host": [
            name for name in names if name not in here
        ],
    }
    lines = [(state, " ".join([f"`{name}`" for name in listed])) for state, listed in rows.items()]
    return "\n".join([START, "", page_tables.table(("state", "functions"), lines), "", END])


if __name__ == "__main__":
    print(table())
