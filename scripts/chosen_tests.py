"""The tests of a run: those of its markers, its shard and its selection, and a second driver's part of them.

`scripts/run_tests.py` names the last three in the environment. tests/conftest.py registers the plugin.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

SELECTION = "VKCOMPUTE_TEST_SELECTION"
"""The environment variable with what `Selection.dumps` of selection.py gives."""
SHARD = "VKCOMPUTE_TEST_SHARD"
"""The environment variable with a shard: which part of the test files, of how many."""
CASES = 2
"""At least so many cases of a test run where its cases rotate."""
RARER = 2
"""Where cases rotate, tests marked `rotates` run so many times less often."""


class ChosenTests:
    """A plugin of pytest: it skips the files of other shards, and deselects the tests that are not of this run.

    Args:
        env: the environment variables that name the tests; without them, all run.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        selection = json.loads(env.get(SELECTION, "{}"))
        part = selection.get("part") or {"share": 1, "in_full": (), "marker": "", "sampled": (), "sampled_share": 1}
        self._whole, self._seed = frozenset(selection.get("whole", ())), selection.get("seed", "")
        self._share, self._rotating = selection.get("share", 1), selection.get("rotating", 1)
        self._guards = frozenset(selection.get("guards", ()))
        self._in_full, self._marker = tuple(part["in_full"]), part["marker"]
        self._sampled, self._shares = tuple(part["sampled"]), (part["share"], part["sampled_share"])
        self._number, self._n_shards = json.loads(env.get(SHARD, "[0, 1]"))

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        """Skips the test files of other shards and markers, which takes less time than to import them."""
        name = collection_path.name
        if not (name.startswith("test_") and name.endswith(".py") and collection_path.is_relative_to(config.rootpath)):
            return None
        file = collection_path.relative_to(config.rootpath).as_posix()
        is_own = zlib.crc32(file.encode()) % self._n_shards == self._number
        return None if is_own and required(config.option.markexpr) <= marks_near(collection_path) else True

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselects the tests that are not of this run."""
        rotated = self._rotated_cases(items)
        others = [item for item in items if item.nodeid in rotated or not self._runs(item)]
        left_out = {item.nodeid for item in others}
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item.nodeid not in left_out]

    def _rotated_cases(self, items: list[pytest.Item]) -> set[str]:
        """The cases that other commits run: of a test one of `rotating` runs, and at least `CASES`."""
        if self._rotating == 1:
            return set()
        tests = defaultdict(list)  # a test's pure cases are another run's
        for item in items:
            file, name = _file(item), item.nodeid.partition("[")[0]
            if not (file in self._whole or name in self._guards or "rotates" in _marks(item)):
                tests[name, "pure" in _marks(item)].append(item.nodeid)
        return {
            case
            for cases in tests.values()
            for case in sorted(cases, key=self._number_of)[max(CASES, -(-len(cases) // self._rotating)) :]
        }

    def _number_of(self, name: str) -> int:
        """A number of a test that changes with the commit."""
        return zlib.crc32(f"{self._seed}:{name}".encode())

    def _runs(self, item: pytest.Item) -> bool:
        file, marks = _file(item), _marks(item)
        rotates = self._rotating > 1 and "rotates" in marks and item.nodeid.partition("[")[0] not in self._guards
        # Those of a file that have no parameters rotate together: they may share a costly fixture.
        number = self._number_of(file if rotates and "[" not in item.nodeid else item.nodeid)
        share = self._share * (RARER * self._rotating if rotates else 1)
        if file not in self._whole and number % share:
            return False
        part_share = self._shares[file.startswith(self._sampled)]
        return file.startswith(self._in_full) or self._marker in marks or number // share % part_share == 0


def required(expression: str) -> set[str]:
    """Returns the markers without which an expression of pytest's -m is false for any test."""
    terms = [] if re.search(r"\bor\b", expression) else re.split(r"\band\b", expression)
    return {name for term in terms if (name := term.strip(" ()")).isidentifier()}


def marks_near(path: Path) -> set[str]:
    """Returns the markers that a test file names, or a module beside it that is no test, as conftest.py."""
    helpers = [other for other in path.parent.glob("*.py") if not other.name.startswith("test_")]
    return {mark for file in (path, *helpers) for mark in _named_marks(file)}


@cache
def _named_marks(path: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\bmark\.(\w+)", path.read_text(encoding="utf-8")))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _marks(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}
