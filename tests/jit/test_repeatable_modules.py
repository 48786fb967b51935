"""Modules of kernels do not depend on the order of sets, which differs from process to process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hang_limit import hang_limit_s

PROGRAM = """
import hashlib
import vkcompute as vc

@vc.kernel
def late(x: vc.int32[:], out: vc.int32[:], n: vc.int32):
    i = vc.global_id(0)
    for k in range(100):
        alpha, beta, gamma = x[i] + k, x[i] * k, x[i] - k
        delta = alpha * beta
        if delta > n:
            break
    out[i] = alpha + 2 * beta + 3 * gamma + 5 * delta + k

@vc.kernel
def walrus(x: vc.int32[:], out: vc.int32[:]):
    i = vc.global_id(0)
    if (one := x[i]) > 0 and (two := x[i] + 1) > 1 and (three := x[i] + 2) > 2 and (four := x[i] + 3) > 3:
        n = 0
        while n < 4:
            one, two, three, four = two, three, four, one
            n += 1
        out[i] = one + 2 * two + 3 * three + 4 * four

@vc.kernel
def branches(x: vc.int32[:], out: vc.int32[:]):
    i = vc.global_id(0)
    total = 0
    for k in range(x[i]):
        if k % 3 == 0:
            first, second, third = k, k + 1, k + 2
        elif k % 3 == 1:
            first, second, third = k + 3, k, k + 1
        else:
            first, second, third = k, k * k, k
            continue
        total += first * second + third
    out[i] = total

for kernel in (late, walrus, branches):
    print(hashlib.sha256(kernel.spirv()).hexdigest())
"""


@pytest.mark.pure
def test_modules_do_not_depend_on_the_hash_seed(tmp_path_factory: pytest.TempPathFactory) -> None:
    program = tmp_path_factory.mktemp("hashes") / "program.py"
    program.write_text(PROGRAM)
    digests = []
    for seed in ("0", "1", "7", "42"):
        env = os.environ | {"PYTHONHASHSEED": seed, "VKCOMPUTE_CACHE_DIR": str(program.parent / seed)}
        done = subprocess.run(
            [sys.executable, str(program)], env=env, capture_output=True, text=True, timeout=hang_limit_s(), check=False
        )
        assert done.returncode == 0, done.stderr
        digests.append(done.stdout)
    assert len(set(digests)) == 1
