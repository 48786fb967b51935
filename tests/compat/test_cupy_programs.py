"""Programs in the shapes of public ones of CuPy, of which only the import is another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import vkcompute as vc
import vkcompute.compat.cupy as cp
import vkcompute.compat.cupyx as cupyx
import vkcompute.numpy as vnp
from vkcompute.compat.cupyx import jit

pytestmark = pytest.mark.usefixtures("cupy_device")


def test_saxpy() -> None:
    @cp.fuse(kernel_name="saxpy_fused")
    def saxpy_fused(a: Any, x: Any, y: Any) -> Any:
        return a * x + y

    saxpy = cp.ElementwiseKernel("T a, T x, T y", "T z", "z = a * x + y", "saxpy")
    x, y = cp.arange(1000, dtype=cp.float32), cp.full(1000, 3, cp.float32)
    expected = 2.5 * np.arange(1000, dtype=np.float32) + 3
    for result in (saxpy(cp.float32(2.5), x, y), saxpy_fused(2.5, x, y), 2.5 * x + y):
        assert result.dtype == cp.float32
        np.testing.assert_array_equal(cp.asnumpy(result), expected)


def fit(x: Any, n_clusters: int, max_iter: int) -> tuple[Any, Any]:
    """k-means for arrays of either module."""
    xp = cp.get_array_module(x)
    pred = xp.zeros(len(x), dtype=np.int32)
    centers = x[:n_clusters].copy()
    for _ in range(max_iter):
        distances = xp.linalg.norm(x[:, None, :] - centers[None, :, :], axis=2)
        new_pred = xp.argmin(distances, axis=1).astype(np.int32)
        if xp.all(new_pred == pred):
            break
        pred = new_pred
        mask = pred == xp.arange(n_clusters)[:, None]
        sums = xp.where(mask[:, :, None], x, 0).sum(axis=1)
        centers = sums / xp.count_nonzero(mask, axis=1).reshape(n_clusters, 1)
    return centers, pred


def test_k_means() -> None:
    rng = np.random.default_rng(1)
    points = np.concatenate([rng.normal(at, 0.3, (60, 2)) for at in (-3, 0, 4)])[rng.permutation(180)]
    centers, labels = fit(cp.asarray(points), 3, 20)
    expected, expected_labels = fit(points, 3, 20)
    assert centers.dtype == np.float64
    np.testing.assert_array_equal(labels.get(), expected_labels)
    np.testing.assert_allclose(centers.get(), expected, rtol=1e-12)


def test_heat_equation() -> None:
    def steps(xp: Any) -> Any:
        u = xp.zeros((34, 34))
        u[0, :] = 100.0
        for _ in range(50):
            u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
        return u

    result = steps(cp)
    assert isinstance(result, cp.ndarray)
    np.testing.assert_allclose(result.get(), steps(np), rtol=1e-12)


def test_black_scholes() -> None:
    def call_price(xp: Any, erf: Any, s: Any, k: Any, t: Any, r: float, v: float) -> Any:
        root = xp.sqrt(t)
        d1 = (xp.log(s / k) + (r + v * v / 2) * t) / (v * root)
        d2 = d1 - v * root
        normal = [0.5 * (1 + erf(d / math.sqrt(2))) for d in (d1, d2)]
        return s * normal[0] - k * xp.exp(-r * t) * normal[1]

    s, k, t = np.linspace(5, 30, 50), np.linspace(1, 100, 50), np.linspace(0.25, 10, 50)
    erf = np.vectorize(math.erf)
    result = call_price(cp, cupyx.scipy.special.erf, *map(cp.asarray, (s, k, t)), 0.02, 0.3)
    np.testing.assert_allclose(result.get(), call_price(np, erf, s, k, t, 0.02, 0.3), rtol=1e-9, atol=1e-12)


def test_conjugate_gradients() -> None:
    rng = np.random.default_rng(2)
    a = rng.random((20, 20))
    a, b = a @ a.T + 20 * np.eye(20), rng.random(20)
    matrix, right = cp.asarray(a), cp.asarray(b)
    x = cp.zeros(20)
    rest = right - matrix.dot(x)
    direction, norm = rest.copy(), float(cp.dot(rest, rest))
    while norm > 1e-20:
        image = matrix.dot(direction)
        alpha = norm / float(cp.dot(direction, image))
        x += alpha * direction
        rest -= alpha * image
        norm, before = float(cp.dot(rest, rest)), norm
        direction = rest + norm / before * direction
    np.testing.assert_allclose(x.get(), np.linalg.solve(a, b), rtol=1e-9)


def test_game_of_life() -> None:
    board = np.zeros((12, 12), np.int8)
    board[1, 2] = board[2, 3] = board[3, 1] = board[3, 2] = board[3, 3] = 1

    def generation(xp: Any, cells: Any) -> Any:
        near = sum(xp.roll(cells, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        return ((near == 3) | ((cells == 1) & (near == 2))).astype(xp.int8)

    ours, expected = cp.asarray(board), board
    for _ in range(8):
        ours, expected = generation(cp, ours), generation(np, expected)
    np.testing.assert_array_equal(cp.asnumpy(ours), expected)


def test_monte_carlo() -> None:
    cp.random.seed(7)
    x, y = cp.random.uniform(-1, 1, 40_000), cp.random.uniform(-1, 1, 40_000)
    share = cp.mean(x**2 + y**2 < 1)
    assert x.dtype == cp.float64
    assert abs(4 * float(share) - math.pi) < 0.05
    rng = cp.random.default_rng(3)
    walk = rng.standard_normal((100, 20)).cumsum(axis=1)
    assert walk.shape == (100, 20)
    assert walk.dtype == cp.float64


def test_kernels_of_a_reduction() -> None:
    l2norm = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")
    x = cp.arange(10, dtype=cp.float32).reshape(2, 5)
    np.testing.assert_allclose(l2norm(x, axis=1).get(), np.linalg.norm(x.get(), axis=1), rtol=1e-6)
    largest = cp.ReductionKernel("T x, T y", "float64 z", "abs(x - y)", "max(a, b)", "z = a", "0", "largest")
    assert float(largest(x, x + cp.arange(10, dtype=cp.float32).reshape(2, 5))) == 9


def test_kernels_that_index() -> None:
    reverse = cp.ElementwiseKernel("raw T x", "T y", "y = x[_ind.size() - i - 1]", "reverse")
    y = cp.empty(5, np.int64)
    reverse(cp.arange(5), y)
    assert y.tolist() == [4, 3, 2, 1, 0]
    clip = cp.ElementwiseKernel("T x, T low", "T y", "T t = x / 2; y = t < low ? low : t % 3")
    assert clip(cp.array([-9, -4, 3, 7]), -3).tolist() == [-3, -2, 1, 0]
    shifted = cp.arange(6)
    cp.ElementwiseKernel("T x", "T y", "y = x")(shifted[:-1], shifted[1:])  # of the elements before
    assert shifted.tolist() == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(6))
def test_kernels_of_views(seed: int) -> None:
    """Broadcast, reversed and transposed arguments, which are read in place."""
    rng = np.random.default_rng(seed)
    kernel = cp.ElementwiseKernel("T x, T y, raw T w, int32 s", "T z", "z = x * s + y + w[i % 3]")
    shape = tuple(rng.integers(1, 5, seed % 5 + 1))

    def operand() -> tuple[cp.ndarray, np.ndarray]:  # type: ignore[type-arg]
        lengths = tuple(1 if rng.random() < 0.4 else n for n in shape)[rng.integers(0, len(shape)) :]
        host = rng.integers(-9, 9, lengths).astype(np.float32)
        device = cp.asarray(host)
        return (device[..., ::-1], host[..., ::-1]) if rng.random() < 0.5 else (device.T.copy().T, host)

    (x, host_x), (y, host_y) = operand(), operand()
    w = rng.integers(0, 9, 8).astype(np.float32)
    expected = np.broadcast_to(host_x * 3 + host_y, np.broadcast_shapes(host_x.shape, host_y.shape))
    expected = expected + w[np.arange(expected.size) % 3].reshape(expected.shape)
    np.testing.assert_array_equal(kernel(x, y, cp.asarray(w), 3).get(), expected)


def test_kernels_with_a_preamble() -> None:
    definitions = """
        #define N_STEPS 4
        __constant__ float weights[N_STEPS] = {1, 0.5f, 0.25f};
        __device__ void push(T* last, T x) { last[1] = last[0]; last[0] = x; }
        template <typename U> __device__ U difference(const U* last) { return last[0] - last[1]; }
    """
    text = """
        T last[2] = {0};
        y = 0;
        for (int k = 0; k < N_STEPS; k++) { push(last, x * k); y += difference(last) * weights[k]; }
    """
    kernel = cp.ElementwiseKernel("T x", "T y", text, preamble=definitions)
    assert kernel(cp.array([8.0, -4.0], cp.float32)).tolist() == [6, -3]
    norm = cp.ReductionKernel(
        "T x", "T y", "squared(x)", "a + b", "y = squared(a)", "ZERO",
        preamble="#define ZERO 0\n__device__ T squared(T x) { return x * x; }",
    )  # fmt: skip
    assert int(norm(cp.array([1, 2, 3]))) == 14**2


def test_kernels_with_control_flow() -> None:
    """Iterations of the Mandelbrot set, and a polynomial's terms."""
    text = """
        T re = 0, im = 0;
        n_steps = 0;
        while (n_steps < 20) {
            T next = re * re - im * im + x;
            im = 2 * re * im + y;
            re = next;
            if (re * re + im * im > 4) break;
            n_steps++;
        }
    """
    steps = cp.ElementwiseKernel("T x, T y", "int32 n_steps", text)(cp.array([0.0, 1.0, -1.0, 0.3]), cp.array(0.0))
    assert steps.tolist() == [20, 2, 20, 11]
    sums = cp.ElementwiseKernel(
        "T x", "T y", "y = 0; for (int j = 1; j <= 3; ++j) { if (j == 2) continue; y += x * j; }"
    )
    assert sums(cp.array([1, 5])).tolist() == [4, 20]


def test_kernels_with_atomic_operations() -> None:
    text = (
        "int bin = x * 4; atomicAdd(&counts[bin], 1); atomicMax(&largest[bin], (int)i); y = atomicSub(&one[0], 2) > 0"
    )
    kernel = cp.ElementwiseKernel("float32 x", "bool y, raw uint32 counts, raw int32 largest, raw int32 one", text)
    x, counts = cp.array([0.1, 0.9, 0.3, 0.8, 0.2], cp.float32), cp.zeros(4, cp.uint32)
    y, largest, one = cp.empty(5, bool), cp.full(4, -1, cp.int32), cp.array([5], cp.int32)
    kernel(x, y, counts, largest, one)
    assert (counts.tolist(), largest.tolist(), one.tolist()) == ([2, 1, 0, 2], [4, 2, -1, 3], [-5])
    assert int(y.sum()) == 3
    with pytest.raises(cp.cuda.compiler.CompileException, match="x is constant"):
        cp.ElementwiseKernel("raw T x", "T y", "atomicAdd(&x[i], 1)")(x, size=5)


def test_kernels_compute_as_c() -> None:
    x, y = cp.array([3, 250], cp.uint8), cp.array([10, 1], cp.uint8)
    assert cp.ElementwiseKernel("T x, T y", "int32 z", "z = abs(x - y)")(x, y).tolist() == [7, 249]
    less = cp.ElementwiseKernel("int32 x, uint32 y", "bool z", "z = x < y")
    assert less(cp.array([-1], cp.int32), cp.array([1], cp.uint32)).tolist() == [False]
    both = cp.ElementwiseKernel("T x", "T y, T z", "y = z = round(x * 0.5)")
    assert [result.tolist() for result in both(cp.array([1, -5], cp.float32))] == [[1, -3], [1, -3]]
    largest = cp.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a / _in_ind.size()", "INT_MIN")
    assert int(largest(cp.array([-7, -9, -30], cp.int32))) == -2
    with pytest.raises(cp.cuda.compiler.CompileException, match="identifier 'w' is undefined"):
        cp.ElementwiseKernel("T x", "T z", "w = x")(x)
    with pytest.raises(TypeError, match="Type is mismatched"):
        cp.ElementwiseKernel("float x", "float z", "z = x")(x)


def test_raw_kernel_in_python() -> None:
    @jit.rawkernel()
    def reduce_blocks(x, out, n):  # type: ignore[no-untyped-def]
        parts = jit.shared_memory(cp.float32, 32)
        t = jit.threadIdx.x
        i = jit.blockIdx.x * jit.blockDim.x + t
        parts[t] = x[i] if i < n else cp.float32(0)
        jit.syncthreads()
        if t == 0:
            total = cp.float32(0)
            for k in range(32):
                total += parts[k]
            out[jit.blockIdx.x] = total

    x, out = cp.arange(70, dtype=cp.float32), cp.zeros(3, cp.float32)
    reduce_blocks((3,), (32,), (x, out, np.uint32(70)))
    assert out.get().tolist() == [sum(range(32)), sum(range(32, 64)), sum(range(64, 70))]


def test_histogram_by_scatter() -> None:
    counts, values = cp.zeros(4), cp.array([0, 1, 1, 3, 3, 3])
    cupyx.scatter_add(counts, values, 1)
    assert counts.tolist() == cp.bincount(values, minlength=4).tolist() == [1, 2, 0, 3]


def test_spectrum() -> None:
    t = cp.linspace(0, 1, 128, endpoint=False)
    signal = cp.sin(2 * cp.pi * 12 * t) + 0.5 * cp.sin(2 * cp.pi * 30 * t)
    power = cp.abs(cp.fft.rfft(signal))
    assert sorted(cp.argsort(power)[-2:].tolist()) == [12, 30]
    assert int(cp.argmax(power)) == 12


def test_kernel_with_a_text_before_it() -> None:
    """The weights of a Hilbert transform, whose constants are computed once."""
    weights = cp.ElementwiseKernel(
        "",
        "T w",
        "if (i == 0 || (!odd && i == middle)) { w = 1.0; } else if (i < middle + odd) { w = 2.0; } else { w = 0.0; }",
        "weights",
        loop_prep="const bool odd { _ind.size() & 1 }; const int middle = static_cast<int>(0.5 * _ind.size())",
    )
    for n in (7, 8):
        w = cp.empty(n)
        weights(w)
        expected = np.zeros(n)
        expected[1 : (n + 1) // 2], expected[0] = 2, 1
        expected[n // 2] = 1 if n % 2 == 0 else 2
        assert w.tolist() == expected.tolist()
    with pytest.raises(cp.cuda.compiler.CompileException, match="middle is constant"):
        cp.ElementwiseKernel("", "T w", "middle += 1; w = middle", "counted", loop_prep="int middle = 0;")(cp.empty(3))
    with pytest.raises(cp.cuda.compiler.CompileException, match="w is constant"):
        cp.ElementwiseKernel("", "T w", "w = 1", "written", loop_prep="w = 0;")(cp.empty(3))


def test_pooling_of_regions() -> None:
    pool = cp.ElementwiseKernel(
        "raw T image, T scale, int32 height, int32 width, int32 n, raw T regions",
        "T largest, int32 position",
        """
        int column = i % n, row = (i / n) % n, region = i / n / n;
        int left = round(regions[region * 4 + 0] * scale);
        int top = round(regions[region * 4 + 1] * scale);
        int w = max((int)round(regions[region * 4 + 2] * scale) - left + 1, 1);
        int h = max((int)round(regions[region * 4 + 3] * scale) - top + 1, 1);
        int y0 = min(max(static_cast<int>(floor(row * static_cast<float>(h) / n)) + top, 0), height);
        int y1 = min(max(static_cast<int>(ceil((row + 1) * static_cast<float>(h) / n)) + top, 0), height);
        int x0 = min(max(static_cast<int>(floor(column * static_cast<float>(w) / n)) + left, 0), width);
        int x1 = min(max(static_cast<int>(ceil((column + 1) * static_cast<float>(w) / n)) + left, 0), width);
        T best = y1 <= y0 || x1 <= x0 ? 0 : -1E+37;
        int at = -1;
        for (int y = y0; y < y1; ++y)
            for (int x = x0; x < x1; ++x)
                if (image[y * width + x] > best) { best = image[y * width + x]; at = y * width + x; }
        largest = best;
        position = at;
        """,
        "pool",
    )
    image = np.random.default_rng(0).standard_normal((12, 16)).astype(np.float32)
    regions = np.array([[0, 0, 11, 7], [4, 2, 15, 9]], np.float32)
    largest, positions = cp.empty((2, 2, 2), np.float32), cp.empty((2, 2, 2), np.int32)
    pool(cp.asarray(image), 1.0, 12, 16, 2, cp.asarray(regions), largest, positions)
    for region, (x0, y0, x1, y1) in enumerate(regions.astype(int)):
        part = image[y0 : y1 + 1, x0 : x1 + 1]
        h, w = part.shape
        for row, column in np.ndindex(2, 2):
            cell = part[row * h // 2 : -(-(row + 1) * h // 2), column * w // 2 : -(-(column + 1) * w // 2)]
            assert largest[region, row, column].item() == cell.max()
            assert image.ravel()[positions[region, row, column].item()] == cell.max()


@pytest.mark.parametrize("function", [
    lambda x, n: x * n, lambda x, n: n / (n + 3), lambda x, n: x * 2 + n // 3, lambda x, n: np.sqrt(n) - x,
    lambda x, n: np.maximum(x, n) if n > 1 else np.add(x, n), lambda x, n: np.longlong(x) + np.hypot(x, n),
])  # fmt: skip
def test_functions_of_vectorize_promote_as_numpy(function: Any) -> None:
    x, n = np.linspace(-2, 5, 8, dtype=np.float32), np.arange(8, dtype=np.int32)
    result, expected = cp.vectorize(function)(cp.asarray(x), cp.asarray(n)), np.vectorize(function)(x, n)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result.get(), expected, rtol=1e-6)
    assert cp.vectorize(lambda x, n: x + n)(cp.asarray(x), 1).dtype == np.float64


def test_kernels_call_cupys_functions_of_elements() -> None:
    @jit.rawkernel()
    def hypotenuses(x, y, out):
        i = jit.grid(1)
        out[i] = cp.sqrt(cp.square(x[i]) + cp.square(y[i]))

    x, out = cp.arange(64, dtype=cp.float32), cp.zeros(64, cp.float32)
    hypotenuses[1, 64](x, x[::-1].copy(), out)
    np.testing.assert_allclose(out.get(), np.hypot(x.get(), x.get()[::-1]), rtol=1e-6)
    smooth = cp.vectorize(lambda x: cp.where(x > 9, cp.clip(cp.tanh(x - 20), 0, 1), cp.exp(-x)))(x).get()
    np.testing.assert_allclose(smooth, np.where(x.get() > 9, np.clip(np.tanh(x.get() - 20), 0, 1), np.exp(-x.get())),
                               rtol=1e-5)  # fmt: skip
    assert vc.vectorize(lambda x: vnp.log1p(x))(vnp.array([0.0, np.e - 1])).tolist() == pytest.approx([0, 1])
