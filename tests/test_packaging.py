"""The files around the package: workflows, the recipe of conda, links to other sites, names with a typing error."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import vkcompute

tomllib = pytest.importorskip("tomllib")  # Python 3.11
pytestmark = pytest.mark.pure
ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("ci", ["ubuntu", "windows", "macos", ".ci/run", "lvp_icd", "MoltenVK", "vkcompute doctor", "pytest"]),
        ("release", ["scripts/check_wheel.py", "id-token", "pypa/gh-action-pypi-publish", "tags"]),
        ("docs", ["make docs", "--external", "actions/deploy-pages"]),
    ],
)
def test_workflows_have_their_steps(name: str, parts: list[str]) -> None:
    yaml = pytest.importorskip("yaml")
    text = (ROOT / f".github/workflows/{name}.yml").read_text(encoding="utf-8")
    jobs: dict[str, Any] = yaml.safe_load(text)["jobs"]
    for job in jobs.values():
        assert {"runs-on", "steps"} <= {*job}
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])
    assert [part for part in parts if part not in text] == []


def test_the_recipe_of_conda_is_that_of_the_package() -> None:
    yaml, jinja2 = pytest.importorskip("yaml"), pytest.importorskip("jinja2")

    def load_file_regex(load_file: str, regex_pattern: str, from_recipe_dir: bool) -> Any:
        return re.search(regex_pattern, (ROOT / "packaging/conda" / load_file).read_text(encoding="utf-8"))

    text = (ROOT / "packaging/conda/meta.yaml").read_text(encoding="utf-8")
    recipe = yaml.safe_load(jinja2.Template(text).render(load_file_regex=load_file_regex, PYTHON="python"))
    assert recipe["package"] == {"name": PROJECT["name"], "version": vkcompute.__version__}
    wanted = {re.sub(r"\s", "", item) for item in recipe["requirements"]["run"]}
    assert {f"python{PROJECT['requires-python']}", *PROJECT["dependencies"]} <= wanted
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["build"]["entry_points"] == [f"{name} = {at}" for name, at in PROJECT["scripts"].items()]


def test_links_to_other_sites_are_well_formed() -> None:
    """`make docs ARGS=--external` opens them, which needs a network."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    results = {word for page in pages for word in re.findall(r"\]\((\w+://[^)]*)\)", page.read_text(encoding="utf-8"))}
    results |= {*PROJECT["urls"].values()}
    assert len(results) > 20
    for link in results:
        parts = urlsplit(link)
        assert parts.scheme == "https", link
        assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", parts.netloc), link
        assert re.fullmatch(r"[\w./~%+=&#?-]*", link.removeprefix(f"https://{parts.netloc}")), link


@pytest.mark.parametrize(
    ("module", "name", "meant"),
    [
        ("vkcompute", "krenel", "kernel"),
        ("vkcompute.numpy", "lnspace", "linspace"),
        ("vkcompute.nn", "sotfmax", "softmax"),
        ("vkcompute.dask", "LocalClster", "LocalCluster"),
    ],
)
def test_misspelt_names_get_a_suggestion(module: str, name: str, meant: str) -> None:
    """Python suggests names of the object that the error has."""
    if module.endswith("dask"):
        pytest.importorskip("dask.array")
    imported = importlib.import_module(module)
    with pytest.raises(AttributeError) as raised:
        getattr(imported, name)
    assert raised.value.name == name
    assert raised.value.obj is imported
    assert meant in dir(imported)
