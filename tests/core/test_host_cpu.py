"""The processor according to /proc/cpuinfo, and the words that kernels store on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from runtimes import lacks

import vkcompute as vc
from vkcompute.compiled.blocks import _accesses
from vkcompute.core.quirks import fails_store_forwarding, quirks_of

XEON = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)\nflags\t\t: fpu sse2 avx2 avx512f\n\n"


@pytest.fixture(autouse=True)
def _not_cached() -> Iterator[None]:
    fails_store_forwarding.cache_clear()
    yield
    fails_store_forwarding.cache_clear()


@pytest.mark.pure
@pytest.mark.parametrize(
    ("text", "stalls"),
    [
        (XEON * 2, True),
        (XEON.replace(" avx512f", ""), False),
        (XEON.replace("GenuineIntel", "AuthenticAMD"), False),
        ("processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n", False),
        ("\ufffd", False),
        (None, False),
    ],
)
def test_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, *, stalls: bool) -> None:
    path = tmp_path / "cpuinfo"
    if text is not None:
        path.write_bytes(text.encode("latin-1", "replace"))
    monkeypatch.setattr("vkcompute.core.quirks.CPUINFO", path)
    assert fails_store_forwarding() == stalls


def test_the_words_of_a_processor(gpu: vc.Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if lacks(gpu, "int64", in_shaders=True):
        pytest.skip("the device has no words of 64 bits")
    quirks = quirks_of(gpu.device.physical)
    monkeypatch.setattr("vkcompute.core.quirks.CPUINFO", tmp_path / "missing")
    assert _accesses(gpu)[0] == ("uint64" if quirks.scalar_loads else "")
    fails_store_forwarding.cache_clear()
    (tmp_path / "missing").write_text(XEON)
    slow = quirks.scalar_loads and quirks.reloads_wide_vectors
    assert _accesses(gpu)[0] == ("uint32" if slow else "uint64" if quirks.scalar_loads else "")
