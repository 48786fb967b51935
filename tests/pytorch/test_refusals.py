"""Wrong arguments: the device raises the exceptions that PyTorch's CPU raises."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

Call = Callable[[torch.Tensor], Any]


def _zeros(t: torch.Tensor) -> torch.Tensor:
    """Returns an index of zeros per element."""
    return torch.zeros(t.shape, dtype=torch.int64, device=t.device)


def _first(t: torch.Tensor) -> torch.Tensor:
    return torch.tensor([0], device=t.device)


ALONG_AN_AXIS: dict[str, Callable[[torch.Tensor, Any], Any]] = {
    **{
        name: lambda t, dim, name=name: getattr(torch, name)(t, dim=dim)  # type: ignore[misc]
        for name in "sum amax argmin any var std_mean median mode cummax logcumsumexp sort logsumexp count_nonzero "
        "aminmax unique_consecutive".split()
    },
    "flip": lambda t, dim: t.flip(dim),
    "roll": lambda t, dim: t.roll(1, dim),
    "topk": lambda t, dim: t.topk(1, dim),
    "kthvalue": lambda t, dim: t.kthvalue(1, dim),
    "index_select": lambda t, dim: t.index_select(dim, _first(t)),
    "gather": lambda t, dim: t.gather(dim, _zeros(t)),
    "scatter": lambda t, dim: t.scatter(dim, _zeros(t), 1.0),
    "scatter_reduce": lambda t, dim: t.scatter_reduce(dim, _zeros(t), t, "amax"),
    "index_add": lambda t, dim: t.index_add(dim, _first(t), t[:1]),
    "cat": lambda t, dim: torch.cat([t, t], dim),
}


@pytest.fixture(autouse=True)
def with_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "silent")


def _error(call: Call, tensor: torch.Tensor) -> str | None:
    """Returns the name of the exception that a call raises."""
    try:
        call(tensor)
    except Exception as error:
        return type(error).__name__
    return None


@pytest.mark.parametrize("name", ALONG_AN_AXIS)
def test_axes_that_a_tensor_lacks(name: str) -> None:
    for shape in (2, 3), (), (0, 3):
        x = torch.ones(shape)
        for dim in 2, -3, 5:
            assert _error(lambda t, dim=dim: ALONG_AN_AXIS[name](t, dim), x.to("vk")) == _error(
                lambda t, dim=dim: ALONG_AN_AXIS[name](t, dim), x
            )


@pytest.mark.parametrize("name", ["sum", "var", "amax", "logsumexp", "flip", "any", "count_nonzero"])
def test_axes_that_are_given_twice(name: str) -> None:
    with pytest.raises(RuntimeError, match="multiple times"):
        ALONG_AN_AXIS[name](torch.ones(2, 3, device="vk"), (1, -1))


REFUSED: dict[str, Call] = {
    "uniform": lambda t: t.uniform_(3, -1),
    "normal": lambda t: t.normal_(0, -1),
    "exponential": lambda t: t.exponential_(0),
    "bernoulli": lambda t: t.bernoulli_(1.5),
    "multinomial": lambda t: torch.multinomial(t, 4),
    "multinomial of nothing": lambda t: torch.multinomial(t, 0),
    "multinomial of integers": lambda t: torch.multinomial(t.int(), 1),
    "complex": lambda t: torch.complex(t, t.double()),
    "masked_fill": lambda t: t.masked_fill(t > 0, 1j),
    "masked_scatter": lambda t: t.masked_scatter(t.byte(), t),
    "gather": lambda t: torch.gather(t, 0, _zeros(t), out=t.double()),
    "amax": lambda t: torch.amax(t, 0, out=torch.empty(3, dtype=torch.int32, device=t.device)),
    "gelu": lambda t: torch.nn.functional.gelu(t, approximate="sigmoid"),
    "eye": lambda t: torch.eye(2, -3, device=t.device),
    "bucketize": lambda t: torch.bucketize(t, t),
    "roll": lambda t: t.roll((1, 2), (0,)),
    "empty": lambda t: torch.empty(2, -1, device=t.device),
    "resize": lambda t: t.resize_(2, -1),
    "index_put": lambda t: t.index_put((_first(t),), torch.ones(2, 3, device=t.device)),
    "index_put of nothing": lambda t: torch.ones((), device=t.device).index_put([], t),
    "a part of itself": lambda t: torch.add(t.view(-1)[:-1], 1, out=t.view(-1)[1:]),
    "a part of itself in place": lambda t: t.view(-1)[1:].mul_(t.view(-1)[:-1]),
    "itself, transposed": lambda t: torch.exp(t.t(), out=t.view(3, 2)),
    "median of nothing": lambda t: t[:0].median(0),
    "integers for a sum": lambda t: torch.add(t, t, out=torch.empty(2, 3, dtype=torch.int32, device=t.device)),
    "integers for a sine": lambda t: torch.sin(t, out=torch.empty(2, 3, dtype=torch.int32, device=t.device)),
    "a bool for a quotient": lambda t: torch.div(t, 2, out=torch.empty(2, 3, dtype=torch.bool, device=t.device)),
    "division of integers by 0": lambda t: t.long() // 0,
    "remainders of integers by 0": lambda t: t.long() % 0,
    "remainders to 0 of integers by 0": lambda t: torch.fmod(t.long(), 0),
    "a float for a truth": lambda t: torch.all(t, out=torch.empty((), device=t.device)),
    "a float for a complex root": lambda t: torch.sqrt(t.cfloat(), out=torch.empty(2, 3, device=t.device)),
    "integers for negative floats": lambda t: torch.neg(t, out=torch.empty(2, 3, dtype=torch.int64, device=t.device)),
    "integers for a sign": lambda t: torch.sign(t, out=torch.empty(2, 3, dtype=torch.int64, device=t.device)),
    "integers for an angle": lambda t: torch.angle(t, out=torch.empty(2, 3, dtype=torch.int64, device=t.device)),
    **{
        f"integers for {name}": lambda t, f=f: f(t, torch.empty(0, dtype=torch.int64, device=t.device))
        for name, f in {
            "a product of matrices": lambda t, out: torch.mm(t, t.t(), out=out),
            "a sum of products": lambda t, out: torch.addmm(t[0, 0], t, t.t(), out=out),
            "the largest numbers": lambda t, out: torch.topk(t, 1, out=(out, torch.empty_like(out))),
            "a part of a matrix": lambda t, out: torch.tril(t, out=out),
            "clamped numbers": lambda t, out: torch.clamp(t, 0, 1, out=out),
            "a loss": lambda t, out: torch._C._nn.mse_loss(t, t, 0, out=out),
            "an activation": lambda t, out: torch._C._nn.silu(t, out=out),
            "an error function's inverse": lambda t, out: torch.erfinv(t, out=out),
        }.items()
    },
    **{
        f"doubles for {name}": lambda t, f=f: f(t, torch.empty(0, dtype=torch.float64, device=t.device))
        for name, f in {
            "a product of matrices": lambda t, out: torch.mm(t, t.t(), out=out),
            "a product with a vector": lambda t, out: torch.mv(t, t[0], out=out),
            "a sum of products": lambda t, out: torch.addmm(t[0, 0], t, t.t(), out=out),
            "clamped numbers": lambda t, out: torch.clamp(t, 0, 1, out=out),
            "sorted numbers": lambda t, out: torch.sort(t, out=(out, _zeros(t))),
            "rows": lambda t, out: torch.index_select(t, 0, _first(t), out=out),
            "medians": lambda t, out: torch.median(t, 1, out=(out, _zeros(t[:, 0]))),
            "the second numbers": lambda t, out: torch.kthvalue(t, 2, out=(out, _zeros(t[:, 0]))),
            "modes": lambda t, out: torch.mode(t, 1, out=(out, _zeros(t[:, 0]))),
            "a part of a matrix": lambda t, out: torch.triu(t, out=out),
            "a norm": lambda t, out: torch.norm(t, dim=0, out=out),
            "a histogram": lambda t, out: torch.histc(t, 4, out=out),
        }.items()
    },
    "rows of other lengths": lambda t: torch.cat([t, t[:, :1]], out=t.new_empty(0)),
    "rows beside a vector": lambda t: torch.cat([t, t[0]], out=t.new_empty(0)),
    "a product of two dtypes": lambda t: torch.mm(t, t.t().double()),
    **{
        f"itself for {name}": lambda t, f=f: f(t.view(-1), _zeros(t.view(-1)))
        for name, f in {
            "joined parts": lambda x, i: torch.cat([x[:3], x[3:]], out=x),
            "stacked parts": lambda x, i: torch.stack([x[:3], x[3:]], out=x.view(2, 3)),
            "gathered elements": lambda x, i: torch.gather(x, 0, i, out=x),
            "selected elements": lambda x, i: torch.index_select(x, 0, i, out=x),
            "taken elements": lambda x, i: torch.take(x, i, out=x),
            "scattered elements": lambda x, i: x.scatter_(0, i[:2], x[:2]),
            "added elements": lambda x, i: x.index_add_(0, i[:2], x[:2]),
            "copied elements": lambda x, i: x.index_copy_(0, i[:2], x[:2]),
            "put elements": lambda x, i: x.index_put_((i[:2],), x[:2]),
            "indices of what is not zero": lambda x, i: torch.nonzero(i, out=i),
            "the largest numbers": lambda x, i: torch.topk(x, 2, out=(x[:2], i[:2])),
            "maxima": lambda x, i: torch.max(x.view(2, 3), 0, out=(x[:3], i[:3])),
            "the second numbers": lambda x, i: torch.kthvalue(x.view(2, 3), 2, out=(x[:2], i[:2])),
            "chosen elements": lambda x, i: torch.masked_select(x, x > 0, out=x),
        }.items()
    },
    **{
        f"a part of itself for {name}": lambda t, f=f: f(t.view(-1)[:4], t.view(-1)[1:5])
        for name, f in {
            "a copy": lambda x, out: out.copy_(x),
            "sums": lambda x, out: torch.cumsum(x, 0, out=out),
            "shifted floats": lambda x, out: x.__ilshift__(out),
            "truths": lambda x, out: torch.logical_not(x, out=out),
            "both truths": lambda x, out: torch.logical_and(x, x, out=out),
            "what is added to a product": lambda x, out: torch.addmm(
                x.view(2, 2), x.view(2, 2), x.view(2, 2), out=out.view(2, 2)
            ),
        }.items()
    },
    "a vector to fill with": lambda t: t[0].fill_(t[0]),
    "integers at indices of floats": lambda t: t.index_put_((_first(t),), t[:1].long()),
    "an integer at indices of floats": lambda t: t.__setitem__(_first(t), _first(t)),
    "a bool less a number": lambda t: (t > 0) - 1,
    "a number less bools": lambda t: 1.5 - (t > 0),
    "a bool of a number, subtracted": lambda t: torch.sub(t, True),
    "a bool as a factor": lambda t: torch.add(t, 1, alpha=True),
    "a complex factor of products": lambda t: torch.addcmul(t, t, t, value=1j),
    "a complex factor of quotients": lambda t: torch.addcdiv(t, t, t, value=1j),
    "a complex weight": lambda t: torch.lerp(t, t, 1j),
    "a limit beyond a byte": lambda t: t.byte().clamp(-2, 300),
    "a limit beyond an int16": lambda t: t.short().clamp_max(1 << 20),
    "matrices for an outer product": lambda t: torch.addr(t, t, t),
    "a float as a factor of integers": lambda t: torch.addr(t.long(), t[:, 0].long(), t[0].long(), beta=2.5),
    "a bool as a factor of an outer product": lambda t: torch.addr(t, t[:, 0], t[0], beta=True),
    "degrees of integers in place": lambda t: t.long().deg2rad_(),
    "several dtypes of a step function": lambda t: torch.heaviside(t, t.double()),
    "bits of floats": lambda t: t & t,
    "inverted bits of floats": lambda t: ~t,
    "shifts of floats": lambda t: t << 1,
    "multiples of floats": lambda t: torch.lcm(t, t),
    "a hypotenuse of integers": lambda t: torch.hypot(t.long(), t.long()),
    "order of complex numbers": lambda t: t.to(torch.complex64) < 2,
    "rounded complex numbers": lambda t: t.to(torch.complex64).round(),
    "a complex number for floats": lambda t: t.index_fill(0, _first(t), 1j),
    "a grid of another batch": lambda t: torch.nn.functional.grid_sample(
        t.new_ones(2, 1, 2, 2, 2), t.new_zeros(1, 2, 2, 2, 3), align_corners=False
    ),
    "a mask of integers": lambda t: torch.masked_select(t, t.long()),
    "random numbers beyond a byte": lambda t: t.byte().random_(0, 1000),
    "negative random numbers in a byte": lambda t: t.byte().random_(-3, 10),
    "random numbers beyond float16": lambda t: t.half().random_(0, 100_000),
    "a number beyond a byte": lambda t: t.byte().masked_fill_(t > 0, 300),
    "a number beyond float16": lambda t: t.half().masked_fill_(t > 0, 100_000),
    "a number of all elements beyond bfloat16": lambda t: t.bfloat16().fill_(1e39),
    "a limit beyond float16": lambda t: t.half().clamp(max=100_000.0),
    "a limit next to float16": lambda t: t.half().clamp(min=65519.0),
    "a weight beyond bfloat16": lambda t: t.bfloat16().lerp(t.bfloat16(), 1e39),
    "a factor beyond float32": lambda t: torch.add(t, t, alpha=1e39),
    "a factor beyond a byte": lambda t: torch.sub(t.byte(), t.byte(), alpha=300),
    "two indices of a number": lambda t: t[0, 0].index_select(0, _zeros(t[0, :2])),
    "an index of nothing": lambda t: t[:0].index_select(0, _zeros(t[0, :2])),
    "an index of an empty vector": lambda t: t[0, :0].index_select(0, _zeros(t[0, :2])),
    "an element of nothing": lambda t: t[:0].index_put_((_zeros(t[0, :2]),), t[0, 0]),
    "integers for chosen floats": lambda t: torch.where(t > 0, t, t, out=t.long()),
    "a larger result in itself": lambda t: torch.where(t[0] > 0, t, t[0], out=t[0]),
    "a larger result in an operand": lambda t: torch.add(t, t.view(-1)[:1], out=t.view(-1)[:1]),
    "an empty result in an operand": lambda t: torch.where(t[:0, 0] > 0, t[:0], t[0, :0], out=t[0, :0]),
    "reals for complex numbers": lambda t: torch.complex(t, t, out=t.clone()),
    "wide complex numbers": lambda t: torch.polar(t, t, out=t.to(torch.complex128)),
    "quotients of integers": lambda t: torch.addcdiv(t, t.long(), t.long(), out=t.clone()),
    "weights of another dtype": lambda t: torch.nn.functional.nll_loss(t, _zeros(t[:, 0]), t[0].double()),
    "a roll without shifts": lambda t: t.roll((), (1,)),
    "adaptive means of integers": lambda t: torch.nn.functional.adaptive_avg_pool2d(t[None].long(), 2),
    "adaptive maxima of bytes": lambda t: torch.nn.functional.adaptive_max_pool2d(t[None].byte(), 1),
    "means of volumes of bytes": lambda t: torch.nn.functional.avg_pool3d(t[None, None].byte(), 1),
    "images of integers": lambda t: torch.nn.functional.interpolate(t[None, None].int(), 3, mode="bilinear"),
    "images of integers, cubic": lambda t: torch.nn.functional.interpolate(t[None, None].int(), 3, mode="bicubic"),
    "nearest of integers": lambda t: torch.nn.functional.interpolate(t[None, None].int(), 3),
    "a matrix of indices": lambda t: t.index_select(0, _zeros(t)),
    "a reflection beyond the image": lambda t: torch.nn.functional.pad(t[None, None], (3, 0, 0, 0), "reflect"),
    "bytes by 256": lambda t: t.byte() // 256,
    "bytes by 256 of the host": lambda t: t.byte() // torch.tensor(256),
    "remainders of bytes by 256": lambda t: t.byte() % 256,
    "a power beyond a byte": lambda t: t.byte() ** 300,
    "a power beyond an int16": lambda t: t.short() ** 70_000,
    "a power beyond an int32": lambda t: t.int() ** (1 << 40),
    "a power beyond float16": lambda t: t.half() ** 1e5,
    "segments of an unknown kind": lambda t: torch.segment_reduce(t, "median", lengths=_first(t) + 2),
    "a condition of integers": lambda t: torch.where(t.long(), t, t),
    "doubles for weighted sums": lambda t: torch.lerp(t, t, t, out=t.double()),
    **{
        f"{kind} for {name}": lambda t, name=name, kind=kind: getattr(torch, name)(t, out=getattr(t, kind)())
        for name in ("signbit", "isposinf", "isneginf")
        for kind in ("float", "byte")
    },
    "a replication of nothing": lambda t: torch.nn.functional.pad(t[None, :, :0], (1, 0), "replicate"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_are_refused(name: str) -> None:
    expected = _error(REFUSED[name], torch.ones(2, 3))
    assert expected is not None
    assert _error(REFUSED[name], torch.ones(2, 3, device="vk")) == expected


def test_masks_of_bytes_warn() -> None:
    x = torch.arange(4.0, device="vk")
    mask = torch.tensor([1, 0, 1, 0], dtype=torch.uint8, device="vk")
    with pytest.warns(UserWarning, match="deprecated"):
        x[mask] = 5.0
    assert x.tolist() == [5, 1, 5, 3]
    with pytest.warns(UserWarning, match="where received a uint8 condition"):
        assert torch.where(mask, x, -x).tolist() == [5, -1, 5, -3]


def test_expanded_tensors_are_filled() -> None:
    """As on the CPU, where an element that is repeated gets a value if one of its repetitions does."""
    mask = torch.tensor([[True, False], [False, False], [False, False]])
    results = []
    for device in "cpu", "vk":
        x = torch.arange(2.0, device=device)
        with pytest.warns(UserWarning, match="expanded tensors is deprecated"):
            x.expand(3, 2).masked_fill_(mask.to(device), 7)
        y = torch.empty_strided((3, 2), (0, 1), device=device).fill_(3)
        z = torch.zeros(9, device=device)
        z[1:].as_strided((2, 3), (1, 2)).fill_(4), z[5:].as_strided((2, 2), (2, 0)).fill_(5)
        overlapping = z.as_strided((2, 2), (4, 4)).fill_(6)
        one = torch.zeros(1, 1, device=device).expand(1, 1).fill_(2)
        results.append([x.tolist(), y.tolist(), z.tolist(), overlapping.tolist(), one.tolist()])
    assert results[0] == results[1]


@pytest.mark.parametrize("at", [[0], [-1, 2]], ids=str)
def test_expanded_tensors_are_filled_at_indices(at: list[int]) -> None:
    results = []
    for device in "cpu", "vk":
        index, filled = torch.tensor(at, device=device), []
        for shape in (1, 3), (3, 1):
            for axis in 0, 1:
                x = torch.arange(3.0, device=device).view(shape)
                with pytest.warns(UserWarning, match="index_fill_ on expanded tensors is deprecated"):
                    x.expand(3, 3).index_fill_(axis, index, 7)
                y = torch.arange(3.0, device=device).view(shape)
                with pytest.warns(UserWarning, match="index_put_ on expanded tensors is deprecated"):
                    y.expand(3, 3)[(index, slice(None)) if axis else (slice(None), index)] = 8
                filled += [x.tolist(), y.tolist()]
        results.append(filled)
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ["airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"])
def test_oscillating_functions_are_nan_at_infinity(name: str) -> None:
    x, function = torch.tensor([math.inf, -math.inf, math.nan, 2.5]), getattr(torch.special, name)
    torch.testing.assert_close(function(x.to("vk")).cpu(), function(x), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.bool, torch.uint8, torch.int64], ids=str)
def test_deterministic_tensors_without_elements_are_filled(dtype: torch.dtype) -> None:
    torch.use_deterministic_algorithms(True)
    try:
        results = [
            [torch.empty(3, dtype=dtype, device=device),
             torch.empty_strided((2, 2), (1, 2), dtype=dtype, device=device),
             torch.zeros(2, dtype=dtype, device=device).resize_(4)] for device in ("cpu", "vk")
        ]  # fmt: skip
    finally:
        torch.use_deterministic_algorithms(False)
    for expected, result in zip(*results, strict=True):
        torch.testing.assert_close(result.cpu(), expected, equal_nan=True)


AT_INDICES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "gather": lambda t, i: t.gather(0, i[:, None]),
    "scatter": lambda t, i: t.scatter(0, i[:, None], 1.5),
    "scatter_add": lambda t, i: t.scatter_add(0, i[:, None], t),
    "scatter_reduce": lambda t, i: t.scatter_reduce(0, i[:, None], t, "amax"),
    "index_select": lambda t, i: t.index_select(0, i),
    "index_add": lambda t, i: t.index_add(0, i, t[:2]),
    "index_copy": lambda t, i: t.index_copy(0, i, t[:2]),
    "index_reduce": lambda t, i: t.index_reduce(0, i, t[:2], "prod"),
    "embedding": lambda t, i: torch.nn.functional.embedding(i, t),
    "embedding_bag": lambda t, i: torch.nn.functional.embedding_bag(i, t, torch.tensor([0], device=t.device)),
    "nll_loss": lambda t, i: torch.nn.functional.nll_loss(t[:2], i),
}


@pytest.mark.parametrize("name", AT_INDICES)
def test_negative_indices_do_not_count_from_the_end(name: str) -> None:
    """As on the CPU, but for the indices of x[index], take and put_."""
    t, function = torch.ones(3, 4, device="vk"), AT_INDICES[name]
    right = function(t, torch.tensor([2, 0], device="vk")).cpu()
    torch.testing.assert_close(right, function(t.cpu(), torch.tensor([2, 0])))
    with pytest.raises(IndexError, match="out of bounds"):
        function(t, torch.tensor([-1, 0], device="vk")).cpu()


def test_negative_indices_of_tensors_count_from_the_end() -> None:
    x, at = torch.arange(5.0, device="vk"), torch.tensor([-1, 0], device="vk")
    assert (x[at].tolist(), x.take(at).tolist()) == ([4, 0], [4, 0])
    assert torch.take_along_dim(x, at, 0).tolist() == [4, 0]
    assert x.index_fill(0, at, 7.0).tolist() == [7, 1, 2, 3, 7]


DRAWN: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], list[float], list[list[float]]]] = {
    "bernoulli": (torch.bernoulli, [0.0, 1.0, 0.5], [[0.5, 1.5, 0.5], [-0.1, 0.5, 0.5], [0.5, math.nan, 0.5]]),
    "multinomial": (
        lambda t: torch.multinomial(t, 1),
        [0.0, 3.0, 0.5],
        [[0.5, -1.0, 0.5], [0.5, math.inf, 0.5], [0.5, 0.5, math.nan], [0.0, 0.0, 0.0]],
    ),
    "multinomial with replacement": (
        lambda t: torch.multinomial(t, 4, replacement=True),
        [0.0, 3.0, 0.5],
        [[0.5, -1.0, 0.5], [0.5, math.inf, 0.5], [0.5, 0.5, math.nan], [0.0, 0.0, 0.0]],
    ),
    "binary_cross_entropy": (
        lambda t: torch.nn.functional.binary_cross_entropy(t, torch.ones_like(t)),
        [0.0, 1.0, 0.5],
        [[0.5, 1.5, 0.5], [-0.1, 0.5, 0.5]],
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_probabilities_and_weights_that_are_none(name: str) -> None:
    function, right, wrong = DRAWN[name]
    assert torch.isfinite(function(torch.tensor(right, device="vk"))).all()
    for values in wrong:
        with pytest.raises(RuntimeError):
            function(torch.tensor(values))
        with pytest.raises(RuntimeError, match="must be"):
            function(torch.tensor(values, device="vk")).cpu()


@pytest.mark.parametrize("dtype", [torch.int16, torch.int64, torch.float32])
def test_medians_of_no_elements(dtype: torch.dtype) -> None:
    x = torch.tensor([], dtype=dtype)
    for function in torch.median, torch.nanmedian:
        torch.testing.assert_close(function(x.to("vk")).cpu(), function(x), equal_nan=True)


@pytest.mark.parametrize("make", [
    lambda device: torch.ones(3, device=device), lambda device: torch.ones(3).to(device),
    lambda device: torch.zeros(2, device="vk").to(device), lambda device: torch.tensor([1.0], device=device),
    lambda device: torch.empty_strided((2,), (1,), device=device), lambda device: torch.arange(3, device=device),
    lambda device: torch.empty_like(torch.ones(2), device=device), lambda device: torch.randn(3, device=device),
    lambda device: torch.nn.Linear(2, 2).to(device),
])  # fmt: skip
def test_there_is_one_device(make: Callable[[str], Any]) -> None:
    with pytest.raises(RuntimeError, match="invalid device ordinal: vk:3"):
        make("vk:3")
    make("vk:0")
