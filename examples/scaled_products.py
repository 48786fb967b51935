"""A product of 8-bit floats with scales, fused with a relu, beside that of float16: errors, bytes and times."""

from __future__ import annotations

import argparse

import numpy as np

import vkcompute as vc
import vkcompute.compat.triton as triton
import vkcompute.compat.triton.language as tl

GROUP = 32
"""Elements that have a scale in common."""
FORMATS = {"e4m3": (vc.float8_e4m3fn, 8), "e5m2": (vc.float8_e5m2, 15)}
"""Format -> its dtype, and the exponent of its largest number."""


@triton.jit
def quantize_kernel(x_ptr, values_ptr, scales_ptr, LARGEST: tl.constexpr, ROWS: tl.constexpr, GROUP: tl.constexpr):
    group = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    x = tl.load(x_ptr + at)
    exponents = tl.max(tl.abs(x), axis=1).to(tl.int32, bitcast=True) >> 23
    exponents = tl.minimum(tl.maximum(exponents - LARGEST, 1), 253)
    factors = ((254 - exponents) << 23).to(tl.float32, bitcast=True)
    tl.store(values_ptr + at, x * factors[:, None])
    tl.store(scales_ptr + group, exponents.to(tl.uint8))


def quantize(x: vc.Array, form: str) -> tuple[vc.Array, vc.Array]:
    """Returns numbers of 8 bits, and a scale per group of a row: a power of two, as the exponent of float32."""
    dtype, largest = FORMATS[form]
    values, scales = x.runtime.empty(x.shape, dtype), x.runtime.empty((x.shape[0], x.shape[1] // GROUP), np.uint8)
    quantize_kernel[(scales.size // 8,)](x, values, scales, LARGEST=largest, ROWS=8, GROUP=GROUP)
    return values, scales


@triton.jit
def product_kernel(a_ptr, a_scales_ptr, b_ptr, b_scales_ptr, out_ptr, N, K, FORM: tl.constexpr, BLOCK: tl.constexpr,
                   INNER: tl.constexpr, GROUP: tl.constexpr):  # fmt: skip
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k, group = tl.arange(0, INNER), tl.arange(0, INNER // GROUP)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, INNER):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + n[None, :] * K + (start + k)[:, None])
        if FORM == "fp16":
            acc = tl.dot(a, b, acc)
        else:
            groups = (start // GROUP + group)[None, :]
            a_scales = tl.load(a_scales_ptr + m[:, None] * (K // GROUP) + groups)
            b_scales = tl.load(b_scales_ptr + n[:, None] * (K // GROUP) + groups)
            acc = tl.dot_scaled(a, a_scales, FORM, b, b_scales, FORM, acc)
    tl.store(out_ptr + m[:, None] * N + n[None, :], tl.maximum(acc, 0.0))


def product(a: vc.Array, b: vc.Array, form: str, scales: tuple[vc.Array | None, vc.Array | None]) -> vc.Array:
    """Returns relu(a @ b.T) in float32."""
    out, block = a.runtime.empty((a.shape[0], b.shape[0]), np.float32), 32
    grid = (out.shape[0] // block, out.shape[1] // block)
    options = {"FORM": form, "BLOCK": block, "INNER": 64, "GROUP": GROUP}
    product_kernel[grid](a, scales[0], b, scales[1], out, out.shape[1], a.shape[1], **options)
    return out


def main() -> None:
    """Prints the error of each format relative to the results, its bytes per element, and the time of the product."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=256, help="rows and columns of the matrices, a multiple of 64")
    n = parser.parse_args().size
    gpu, rng = vc.default_runtime(), np.random.default_rng(0)
    hosts = [rng.normal(size=(n, n)).astype(np.float32) for _ in range(2)]
    exact = np.maximum(hosts[0].astype(np.float64) @ hosts[1].T.astype(np.float64), 0)
    for form in ("fp16", *FORMATS):
        if form == "fp16":
            (a, b), scales = [gpu.array(host.astype(np.float16)) for host in hosts], (None, None)
        else:
            (a, a_scales), (b, b_scales) = (quantize(gpu.array(host), form) for host in hosts)
            scales = a_scales, b_scales
        error = np.linalg.norm(product(a, b, form, scales).numpy() - exact) / np.linalg.norm(exact)
        n_bytes = (a.nbytes + sum(scale.nbytes for scale in scales[:1] if scale is not None)) / a.size
        time = triton.testing.do_bench(lambda: product(a, b, form, scales), warmup=5, rep=20)  # noqa: B023
        print(f"{form}: error {error:.2%}, {n_bytes:.3f} bytes per element, {time:.2f} ms")


if __name__ == "__main__":
    main()
