"""The tests of a run: those of its shard and of its selection, and a second driver's part of them.

`scripts/run_tests.py` names all three in the environment. tests/conftest.py registers the plugin.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

SELECTION = "VKCOMPUTE_TEST_SELECTION"
"""The environment variable with what `Selection.dumps` of selection.py gives."""
SHARD = "VKCOMPUTE_TEST_SHARD"
"""The environment variable with a shard: which part of the test files, of how many."""


class ChosenTests:
    """A plugin of pytest: it skips the files of other shards, and deselects the tests that are not of this run.

    Args:
        env: the environment variables that name the tests; without them, all run.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        selection = json.loads(env.get(SELECTION, "{}"))
        part = selection.get("part") or {"share": 1, "in_full": (), "marker": "", "rooms": (), "room_share": 1}
        self._whole, self._seed = frozenset(selection.get("whole", ())), selection.get("seed", "")
        self._share, self._rotating = selection.get("share", 1), selection.get("rotating", 1)
        self._in_full, self._marker = tuple(part["in_full"]), part["marker"]
        self._rooms, self._shares = tuple(part["rooms"]), (part["share"], part["room_share"])
        self._number, self._n_shards = json.loads(env.get(SHARD, "[0, 1]"))

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """Skips the test files of other shards, which takes less time than to read them."""
        name = collection_path.name
        if not (name.startswith("test_") and name.endswith(".py") and collection_path.is_relative_to(config.rootpath)):
            return None
        file = collection_path.relative_to(config.rootpath).as_posix()
        return None if zlib.crc32(file.encode()) % self._n_shards == self._number else True

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselects the tests that are not of this run."""
        others = [item for item in items if not self._runs(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if self._runs(item)]

    def _runs(self, item: pytest.Item) -> bool:
        file = item.nodeid.partition("::")[0]
        marks = {mark.name for mark in item.iter_markers()}
        rotates = self._rotating > 1 and "rotates" in marks
        # Those of a file that have no parameters rotate together: they may share a costly fixture.
        name = file if rotates and "[" not in item.nodeid else item.nodeid
        number = zlib.crc32(f"{self._seed}:{name}".encode())
        share = self._share * (self._rotating if rotates else 1)
        if file not in self._whole and number % share:
            return False
        part_share = self._shares[file.startswith(self._rooms)]
        return file.startswith(self._in_full) or self._marker in marks or number // share % part_share == 0
