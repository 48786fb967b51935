"""Complex numbers in kernels, on the device and simulated; numpy is the oracle."""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np
import pytest
from oracle import module
from runtimes import computes_by_words
from test_kernel_errors import compiled

import vkcompute as vc
from vkcompute.errors import KernelError, MissingFeature

N = 12
WHOLE = np.complex64(2 - 1j)
TABLE = np.array([1 + 1j, -2j, 3], np.complex64)


def numbers(dtype: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=N) + 1j * rng.normal(size=N)).astype(dtype)


FUNCTIONS = {
    "z ** w", "np.angle(z)", "cmath.phase(z)", "cmath.rect(x, x + 1)", "cmath.log(z, w)",
    "cmath.rect(cmath.polar(z)[0], cmath.polar(z)[1])",
    *(f"np.{name}(z)" for name in "exp log sin cos tan sinh cosh tanh log1p expm1 log2".split()),
    *(f"np.{name}(z)" for name in "arcsin arccos arctan arcsinh arccosh arctanh".split()),
}  # fmt: skip
"""Expressions with functions of floats."""
EXPRESSIONS = {
    **{text: text for text in ("z + w", "z - 1", "2j * z", "z / w", "z ** w", "z ** 2", "-z", "+z", "3 - z * w")},
    **{text: text for text in ("z.real * 1j + z.imag", "z * i", "1 / z", "z + x", "(z * w) * WHOLE", "z * z.real")},
    **{text: text for text in ("z == z", "z != w", "z.conjugate()", "abs(z)", "z * True", "z * (2 ** 0.5 + 1j)")},
    **{f"np.{name}(z)": f"np.{name}(z)" for name in "abs conj angle real imag square reciprocal isnan".split()},
    **{f"np.{name}(z)": f"np.{name}(z)" for name in "exp log sqrt sin cos tan sinh cosh tanh log1p expm1".split()},
    **{f"np.{name}(z)": f"np.{name}(z)" for name in "arcsin arccos arctan arcsinh arccosh arctanh log2".split()},
    "cmath.sqrt(-x * x)": "np.sqrt(-x * x + 0j)",
    "cmath.phase(z)": "np.angle(z)",
    "cmath.rect(x, x + 1)": "x * np.exp(1j * (x + 1))",
    "cmath.rect(cmath.polar(z)[0], cmath.polar(z)[1])": "z",
    "cmath.log(z, w)": "np.log(z) / np.log(w)",
    "complex(x, 2)": "x + 2j",
    "complex(z)": "z",
    "z if x > 0 else 1j": "np.where(x > 0, z, 1j)",
    "np.where(x > 0, z, 0)": "np.where(x > 0, z, 0)",
    "z or w": "z",
    "x.real + x.conjugate() * 1j": "x + 1j * x",
    "(z, w)[1]": "w",
    "(z, w)[i % 2]": "np.where(i % 2 == 0, z, w)",
    "sum((z, w, x))": "z + w + x",
}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_expressions(gpu: vc.Runtime, dtype: str) -> None:
    by_words = isinstance(gpu, vc.Runtime) and computes_by_words(gpu, dtype)  # a kernel of all functions is huge then
    expressions = {text: oracle for text, oracle in EXPRESSIONS.items() if not (by_words and text in FUNCTIONS)}
    body = "\n".join(f"    out[{at}, i] = {text}" for at, text in enumerate(expressions))
    kernel = vc.kernel(
        module(
            "import cmath\nimport numpy as np\nimport vkcompute as vc\nWHOLE = np.complex64(2 - 1j)\n"
            f"def kernel(z, w, x, out):\n    i = vc.global_id(0)\n    z, w, x = z[i], w[i], x[i]\n{body}"
        ).kernel
    )
    z, w = numbers(dtype, 1), numbers(dtype, 2)
    x = w.real.copy()
    out = gpu.zeros((len(expressions), N), dtype)
    try:
        kernel[1, N](gpu.array(z), gpu.array(w), gpu.array(x), out)
    except MissingFeature as missing:
        pytest.skip(str(missing))
    names = {"z": z, "w": w, "x": x, "i": np.arange(N, dtype=np.int32), "np": np, "WHOLE": WHOLE}
    epsilon = np.finfo(dtype).eps
    for row, (text, oracle) in zip(out.numpy(), expressions.items(), strict=True):
        wanted = np.asarray(eval(oracle, names)).astype(dtype)
        assert np.all(np.abs(row - wanted) <= 32 * epsilon * (1 + np.abs(wanted))), text


@vc.kernel
def accumulate(z: Any, out: Any, factor: Any) -> None:
    i = vc.global_id(0)
    shared = vc.shared(N, vc.complex64)
    shared[i] = z[i]
    vc.barrier()
    kept = vc.local(3, vc.complex64)
    rows = [0j] * 3
    total = 0
    for j in range(N):
        total += shared[j] * factor + TABLE[j % 3]
        kept[j % 3] += shared[N - 1 - j]
        rows[j % 3] += 1
    while total.real > 4:
        total /= 2
    out[i] = total + kept[i % 3] * rows[0] - (1 if i else z[0])


def test_variables_and_memory(gpu: vc.Runtime) -> None:
    z, out = numbers("complex64", 3), gpu.zeros(N, "complex64")
    accumulate[1, N](gpu.array(z), out, 0.5 + 0.25j)
    total = np.sum(z * (0.5 + 0.25j)) + 4 * TABLE.sum()
    while total.real > 4:
        total /= 2
    kept = z[::-1].reshape(-1, 3).sum(0)
    wanted = total + kept[np.arange(N) % 3] * 4 - np.where(np.arange(N) > 0, 1, z[0])
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-5)


@vc.kernel
def scale(z: vc.complex64[:], out: vc.complex64[:], a: vc.complex64, b: complex) -> None:
    i = vc.global_id(0)
    if i < out.size:
        out[i] = z[i] * a + b


def test_arguments_and_views(gpu: vc.Runtime) -> None:
    z = numbers("complex64", 4)
    whole, out = gpu.array(np.repeat(z, 3)), gpu.zeros((N, 2), "complex64")
    scale[1, N](whole[1::3], out[:, 1], 2, 1j)
    np.testing.assert_allclose(out.numpy(), np.stack([np.zeros(N), z * 2 + 1j], 1), rtol=1e-6)
    scale[1, N](whole[1::3], out[:, 1], 1j, 2)  # the same types: another value, not another kernel
    np.testing.assert_allclose(out.numpy()[:, 1], z * 1j + 2, rtol=1e-6)


def test_host_arrays_are_arguments(gpu: vc.Runtime) -> None:
    z, out = numbers("complex64", 5), np.zeros(N, np.complex64)
    with pytest.warns(vc.HostCopyWarning) if isinstance(gpu, vc.Runtime) else pytest.MonkeyPatch.context():
        scale[1, N](z, out, np.complex64(3), 0j)
    np.testing.assert_allclose(out, z * 3, rtol=1e-6)


REFUSED = {
    "z[0] < 1j": "< takes real numbers; got complex64 and a Python complex number; complex numbers have no order",
    "z[0] // 2": "// takes real numbers; got complex64 and a Python int",
    "z[0] % 2": "% takes real numbers",
    "~z[0]": "~ takes real numbers",
    "z[0] & 1": "& takes real numbers",
    "max(z[0], z[1])": "this takes numbers; got complex64; take z.real, z.imag or abs(z)",
    "np.maximum(z[0], z[1])": "maximum takes real numbers",
    "math.floor(z[0])": "this takes numbers; got complex64",
    "math.sin(z[0]).other": "complex64 has no attribute other; it has real, imag and conjugate()",
    "vc.atomic.add(z, 0, 1)": "atomic.add takes integers and floats; got the array z (complex64, 1-D)",
    "x[z[0]]": "this takes numbers; got complex64; take z.real",
    "float(z[0])": "this takes numbers; got complex64",
    "(-1) ** 0.5": "-1 ** 0.5 is complex; write complex(-1)",
}


@pytest.mark.pure
@pytest.mark.parametrize("expression", REFUSED)
def test_what_has_no_meaning_is_refused_with_its_line(expression: str) -> None:
    source = f"import math\nimport numpy as np\nimport vkcompute as vc\ndef kernel(z, x):\n    x[0] = {expression}"
    with pytest.raises(KernelError) as raised:
        compiled(module(source).kernel, ("F", 1), ("f", 1))
    message = str(raised.value)
    assert REFUSED[expression] in message
    assert expression in message.split("\n", 1)[1]


@pytest.mark.pure
def test_a_complex_number_is_not_stored_to_floats() -> None:
    source = "def kernel(z, x):\n    x[0] = z[0]"
    with pytest.raises(KernelError, match=r"got complex64; take z.real, z.imag or abs\(z\)"):
        compiled(module(source).kernel, ("F", 1), ("f", 1))


SPECIAL = [complex(x, y) for x in (0.0, -0.0, 1.0, np.inf, -np.inf, np.nan) for y in (0.0, -0.0, -1.0, np.inf, np.nan)]


@vc.kernel
def roots(z: Any, out: Any) -> None:
    i = vc.global_id(0)
    out[0, i] = cmath.sqrt(z[i])
    out[1, i] = np.exp(z[i])


def test_special_values_are_those_of_arrays(gpu: vc.Runtime) -> None:
    z = np.array(SPECIAL, np.complex64)
    out = gpu.zeros((2, z.size), "complex64")
    roots[1, z.size](gpu.array(z), out)
    with np.errstate(all="ignore"):
        for row, wanted in zip(out.numpy(), (np.sqrt(z), np.exp(z)), strict=True):
            for part in ("real", "imag"):
                np.testing.assert_allclose(getattr(row, part), getattr(wanted, part), rtol=1e-6)


rotated = vc.vectorize(lambda z, w, turn: (np.exp(z / 4) * turn + w, abs(z)))


@pytest.mark.device_only
def test_functions_of_elements() -> None:
    gpu = vc.default_runtime()
    z, w = numbers("complex64", 6), numbers("complex64", 7)
    whole = gpu.array(np.repeat(z, 2))
    for x, turn in ((gpu.array(z), 1j), (whole[::2], np.complex64(2j)), (gpu.array(z), 3.0)):
        for _ in range(2):  # with and without a plan
            turned, size = rotated(x, gpu.array(w), turn)
            assert (turned.dtype, size.dtype) == (np.complex64, np.float32)
            np.testing.assert_allclose(turned.numpy(), np.exp(z / 4) * turn + w, rtol=1e-5)
            np.testing.assert_allclose(size.numpy(), np.abs(z), rtol=1e-6)
    table = vc.elementwise("z * w.conjugate()")(gpu.array(z[:, None]), gpu.array(w))
    np.testing.assert_allclose(table.numpy(), z[:, None] * w.conj(), rtol=1e-5, atol=1e-6)
    of_floats = vc.elementwise("x + 2j")(gpu.array(z.real.copy()))
    np.testing.assert_array_equal(of_floats.numpy(), z.real + np.complex64(2j))
    out = gpu.zeros(N, np.complex64)
    vc.elementwise("x * 2")(gpu.array(z.real.copy()), out=out)
    np.testing.assert_array_equal(out.numpy(), 2 * z.real)
