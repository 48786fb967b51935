"""Operators of the device: results and gradients are the CPU's."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

Function = Callable[..., Any]

UNARY = (
    "abs acos asin asinh atan ceil cos cosh erf erfc exp exp2 expm1 floor frac log log10 log1p log2 logit neg "
    "reciprocal round rsqrt sigmoid sign sin sinc sinh sqrt square tan tanh trunc"
).split()
ACTIVATIONS = (
    "celu elu gelu glu hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 selu silu softplus "
    "softshrink softsign tanhshrink"
).split()


def check(function: Function, *tensors: torch.Tensor, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Compares the results and the gradients of a function with the CPU's."""

    def run(device: str) -> list[torch.Tensor]:
        given = [x.clone().to(device).requires_grad_(x.is_floating_point()) for x in tensors]
        result = function(*given)
        results = [x for x in (result if isinstance(result, tuple | list) else [result]) if x is not None]
        outputs, inputs = [x for x in results if x.requires_grad], [x for x in given if x.requires_grad]
        if outputs and inputs:
            results += torch.autograd.grad(sum(x.square().sum() for x in outputs), inputs, allow_unused=True)
        return [x.detach().cpu() for x in results if x is not None]

    for result, expected in zip(run("vk"), run("cpu"), strict=True):
        torch.testing.assert_close(result, expected, rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_elements(name: str) -> None:
    check(getattr(torch, name), torch.linspace(0.05, 0.9, 12).view(3, 4))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    check(getattr(F, name), torch.linspace(-4, 4, 24).view(2, 3, 4) + 0.01)


def _a(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def _i(n: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, n, shape, generator=torch.Generator().manual_seed(1))


CASES: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "distances of p < 1": (
        lambda x, y: torch.cdist(x, y, 0.5), (torch.tensor([[1.0, 2], [3, 4]]), torch.tensor([[1.0, 5], [3, 4.5]])),
    ),
    "broadcast": (lambda x, y: (x + y) * (x - 2 * y) / (y * y + 1), (_a(3, 1, 4), _a(2, 1))),
    "power": (lambda x, y: x.abs() ** y + x**3 + 2**y, (_a(3, 4), _a(4))),
    "integers": (lambda x, y: x // (y + 1) + x % (y + 1) + (x & y) - (x << 1), (_i(9, 3, 4), _i(5, 4))),
    "truncated quotient": (lambda x, y: torch.div(x - 4, y + 1, rounding_mode="trunc"), (_i(9, 3, 4), _i(5, 4))),
    "comparisons": (lambda x, y: ((x > y) | (x == 0) | ~(y <= 0.5)) & (x != y), (_a(3, 4), _a(4))),
    "where": (lambda x, y: torch.where(x > 0, x, y) + torch.clamp(x, -0.5, 0.5) + torch.lerp(x, y, 0.3),
              (_a(3, 4), _a(4))),
    "extremes": (lambda x, y: (torch.maximum(x, y), x.amax(1), x.max(0)[0], x.min(), x.argmax(1)), (_a(3, 4), _a(4))),
    "sums": (lambda x: (x.sum(), x.mean((0, 2)), x.prod(1), x.norm(), x.norm(1, 2), x.logsumexp(1)), (_a(2, 3, 4),)),
    "variances": (lambda x: (x.var(), x.std(1), *torch.var_mean(x, (0, 1), correction=0)), (_a(2, 3, 4),)),
    "scans": (lambda x: (x.cumsum(1), x.cumprod(0), x.sort(1)[0], x.topk(2, 1)[1], x.argsort(0)), (_a(3, 4),)),
    "softmax": (lambda x: (x.softmax(1), x.log_softmax(0)), (_a(3, 4),)),
    "products": (lambda x, y, z: (x @ y, x[0] @ y[0], torch.addmm(z, x[0], y[0], beta=2, alpha=3), x[0] @ z[0]),
                 (_a(2, 3, 4), _a(2, 4, 4), _a(3, 4))),
    "einsum": (lambda x, y: torch.einsum("bij,bjk->ik", x, y), (_a(2, 3, 4), _a(2, 4, 5))),
    "indexing": (lambda x, i: (x[i], x[:, i % 3], x[i, i % 3], x[x > 0], x.index_select(1, i % 3)),
                 (_a(4, 3), _i(4, 5))),
    "gather": (lambda x, i: (x.gather(1, i), x.scatter(1, i, 2.0), x.scatter_add(1, i, x)), (_a(3, 4), _i(4, 3, 4))),
    "take": (lambda x, i: (torch.take(x, i), x.index_copy(0, i[:1] % 3, x[:1]), x.index_fill(1, i % 4, 3)),
             (_a(3, 4), _i(12, 3))),
    "writes": (lambda x, i: torch.zeros_like(x).index_put((i,), x[:2], accumulate=True).index_add(0, i, x[1:3]),
               (_a(3, 4), _i(3, 2))),
    "joins": (lambda x, y: (torch.cat([x, y], 1), torch.stack([x, x]), x.roll(1, 0), x.flip(1), x.tril(), x.triu(1)),
              (_a(3, 4), _a(3, 2))),
    "norms": (lambda x, w: (F.layer_norm(x, (4,), w, w), F.group_norm(x, 3), F.instance_norm(x), F.normalize(x)),
              (_a(2, 3, 4), _a(4))),
    "batch norm": (lambda x, w: F.batch_norm(x, None, None, w, w, training=True), (_a(4, 3, 5), _a(3))),
    "embedding": (lambda w, i: F.embedding(i, w, padding_idx=0), (_a(5, 3), _i(5, 2, 4))),
    "losses": (lambda x, i: (F.cross_entropy(x, i, ignore_index=1), F.nll_loss(x, i, reduction="none"),
                             F.mse_loss(x, x.flip(0)), F.smooth_l1_loss(x, x.flip(0)), F.huber_loss(x, x.flip(1))),
               (_a(4, 3), _i(3, 4))),
    "binary losses": (lambda x, y: (F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
                                    F.binary_cross_entropy_with_logits(x, y.sigmoid()), F.l1_loss(x, y)),
                      (_a(3, 4), _a(4, 3).view(3, 4))),
    "attention": (lambda q, m: F.scaled_dot_product_attention(q, q, q, m), (_a(2, 2, 3, 4), _a(3, 3))),
    "pooling": (lambda x: (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2, ceil_mode=True),
                           F.max_pool2d(x, 2, 1, dilation=2), F.max_pool1d(x[0], 2),
                           F.adaptive_avg_pool2d(x, (2, 3))), (_a(2, 2, 8, 6),)),
    "padding": (lambda x: (F.pad(x, (1, 2), value=3), F.pad(x, (1, 1, 2, 0), "reflect")), (_a(1, 2, 4, 5),)),
    "interpolation": (lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, (5, 7), mode="bilinear"),
                                 F.interpolate(x, (3, 9), mode="bilinear", align_corners=True)), (_a(1, 2, 4, 6),)),
    "unfold": (lambda x: (F.unfold(x, 2), F.fold(F.unfold(x, 2), (4, 5), 2)), (_a(1, 2, 4, 5),)),
    "complex": (lambda x, y: torch.view_as_real(torch.complex(x, y) * torch.polar(x.abs(), y).conj()),
                (_a(3, 4), _a(3, 4).flip(0))),
    "medians": (lambda x: (x.median(), x.median(1)[0], x.kthvalue(2, 0)[0], *x.aminmax(dim=1)), (_a(3, 5),)),
    "masked writes": (lambda x, y: torch.zeros_like(x).masked_scatter(x > 0, y), (_a(3, 4), _a(3, 4).flip(0))),
    "adaptive pooling": (lambda x: (F.adaptive_avg_pool2d(x, (3, 4)), F.adaptive_max_pool2d(x, (3, 4)),
                                    F.adaptive_max_pool1d(x[0], 4)), (_a(2, 2, 8, 6),)),
    "volumes": (lambda x, w: (F.conv3d(x, w, stride=(2, 1, 1), padding=1), F.avg_pool3d(x, 2), F.max_pool3d(x, 2, 1),
                              F.conv_transpose3d(x, w.transpose(0, 1), stride=2, output_padding=1),
                              F.adaptive_avg_pool3d(x, (2, 1, 3))), (_a(1, 2, 4, 3, 4), _a(3, 2, 2, 3, 2))),
    "cumulative extremes": (lambda x: (x.cummax(1)[0], x.cummin(0)[0], x.logcumsumexp(1)), (_a(3, 5),)),
    "reductions at indices": (lambda x, i: (
        *(torch.ones_like(x).scatter_reduce(1, i, x, kind, include_self=inner) for inner in (True, False)
          for kind in ("amax", "amin", "mean", "prod")), torch.ones_like(x).index_reduce(0, i[0, :3] % 3, x, "amax")),
        (_a(3, 4), _i(4, 3, 4))),
    "bags": (lambda w, i: tuple(F.embedding_bag(i, w, torch.tensor([0, 2, 2]).to(w.device), mode=mode)
                                for mode in ("sum", "mean", "max")), (_a(6, 3), _i(6, 5))),
    "distances": (lambda x, y: (torch.cdist(x, y), torch.cdist(x, y, 1.0), F.pdist(y)), (_a(3, 4), _a(5, 4))),
    "padding in one axis": (lambda x: (F.pad(x, (1, 2), "reflect"), F.pad(x, (3, 1), "replicate")), (_a(2, 3, 4),)),
    "special functions": (lambda x: (torch.erfinv(x), torch.digamma(x), torch.angle(x), torch.lgamma(x + 2)),
                          (torch.linspace(-0.9, 0.95, 12),)),
    "zeta functions": (lambda x, s: (torch.special.zeta(s.detach(), x.detach()), torch.polygamma(1, x),
                                     torch.polygamma(3, x)),
                       (torch.tensor([0.25, 1.5, 8.5, 12, -0.75, -2.25]), torch.tensor([2.0, 1.5, 1, 30, 3, 4]))),
    "incomplete gamma functions": (
        lambda a, x: (torch.special.gammainc(a.detach(), x), torch.special.gammaincc(a.detach(), x)),
        (torch.tensor([0.5, 2, 9, 30, 0.1, 1, 4]), torch.tensor([0.2, 5, 8, 31, 4, 1e-3, 25]))),
    "orthogonal polynomials": (lambda x, n: tuple(getattr(torch.special, name)(x.detach(), n) for name in (
        *(f"{kind}chebyshev_polynomial_{letter}" for kind in ("", "shifted_") for letter in "tuvw"),
        "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p")),
        (torch.tensor([0.5, -0.25, 1.5, 0.75, 1, -1]), torch.tensor([0, 1, 2, 5, 3, -1]))),
    "segments": (lambda x: tuple(
        torch.segment_reduce(x, kind, lengths=torch.tensor(lengths).to(x.device), initial=initial, unsafe=True)
        for kind, lengths, initial in (("sum", [1, 0, 2], 0), ("mean", [1, 2], 0), ("max", [3, 1], -9),
                                       ("amax", [2, 2], None), ("amin", [1, 3], 9), ("prod", [4], 1))),
        (torch.tensor([[1.0, 2, 0], [1, 3, 0], [-2, 3, 5], [4, 0, 6]]),)),
    "parts of numbers": (lambda x: torch.frexp(x), (torch.tensor([0.0, 1, -2.5, 1e-3, 6e7, math.inf]),)),
    "sampled volumes": (lambda x, g: tuple(
        F.grid_sample(x, g * 1.5, mode, padding, align_corners=padding != "border") for mode in ("bilinear", "nearest")
        for padding in ("zeros", "border", "reflection")), (_a(2, 2, 3, 4, 5), _a(2, 2, 3, 2, 3))),
    "sampled images": (lambda x, g: (F.grid_sample(x, g.tanh(), align_corners=False),
                                      F.grid_sample(x, g, "nearest", "border", align_corners=True)),
                       (_a(1, 2, 4, 5), _a(1, 3, 3, 2))),
    "margin losses": (lambda x, i: (F.multi_margin_loss(x, i[:, 0]), F.multilabel_margin_loss(x, i)),
                      (_a(3, 4), torch.tensor([[1, 0, -1, 2], [3, -1, 0, 0], [0, 1, 2, 3]]))),
    "cubic and smooth resizing": (lambda x: (F.interpolate(x, (5, 7), mode="bicubic"),
                                             F.interpolate(x, (3, 4), mode="bilinear", antialias=True)),
                                  (_a(1, 2, 6, 6),)),
    "normalized weights": (lambda v, g, h: (torch._weight_norm(v, g, 0), torch._weight_norm(v, h, 2)),
                           (_a(4, 2, 3), _a(4, 1, 1).abs() + 1, _a(1, 1, 3).abs() + 1)),
    "embedding of limited norms": (lambda w, i: F.embedding(i.int(), w * 1, max_norm=1.0), (_a(5, 3), _i(5, 2, 4))),
    "nan medians": (lambda x: x.log().nanmedian(1)[0], (_a(3, 5),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(name: str) -> None:
    function, tensors = CASES[name]
    check(function, *tensors)


SEARCHES: dict[str, Function] = {
    "unique": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    "unique slices": lambda x: torch.unique(x.reshape(-1, 2), dim=0, return_inverse=True, return_counts=True),
    "runs": lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
    "places": lambda x: torch.searchsorted(x.sort()[0], x, right=True),
    "places in rows": lambda x: torch.searchsorted(x.reshape(2, -1).sort()[0], x.reshape(2, -1)),
    "buckets": lambda x: torch.bucketize(x, torch.tensor([1, 3], device=x.device)),
    "counts": lambda x: (torch.bincount(x), torch.bincount(x, x.float(), 9), torch.histc(x.float(), 4)),
    "mode": lambda x: torch.mode(x.reshape(2, -1)),
    "repeats": lambda x: torch.repeat_interleave(x, x),
    "sums of bools": lambda x: torch.zeros(5, dtype=torch.bool).to(x.device).index_add(0, x, x > 1),
    "indices of extremes": lambda x: (x.cummax(0)[1], x.cummin(0)[1]),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_and_counts(name: str) -> None:
    check(SEARCHES[name], _i(5, 12))


def test_attention_without_gradients_is_fused() -> None:
    q, mask = _a(2, 2, 3, 4), _a(3, 3)
    for named in ({}, {"is_causal": True}, {"attn_mask": mask}, {"scale": 0.3}):
        expected = F.scaled_dot_product_attention(q, q * 2, q + 1, **named)
        given = {name: value.to("vk") if isinstance(value, torch.Tensor) else value for name, value in named.items()}
        on_device = [x.to("vk") for x in (q, q * 2, q + 1)]
        with _Operators() as called:
            result = F.scaled_dot_product_attention(*on_device, **given)
        assert torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default in called.operators
        torch.testing.assert_close(result.cpu(), expected)
    with _Operators() as called, sdpa_kernel(SDPBackend.MATH):
        F.scaled_dot_product_attention(*on_device)
    assert torch.ops.aten.bmm.default in called.operators


def test_gradients_of_fused_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkcompute.torch.operators.attention._MANY_SCORES", 0)
    mask = torch.tensor([[True, False, True], [True, True, True], [False, False, False]])
    for named in ({}, {"is_causal": True}, {"attn_mask": mask}, {"scale": 0.3}):

        def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, named: dict[str, Any] = named) -> torch.Tensor:
            given = {name: x.to(q.device) if isinstance(x, torch.Tensor) else x for name, x in named.items()}
            return F.scaled_dot_product_attention(q, k, v, **given)

        check(attention, _a(2, 2, 3, 4), _a(2, 2, 3, 4) * 2, _a(2, 2, 3, 4) + 1)


class _Operators(TorchDispatchMode):
    """Lists the operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators.append(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "logsumexp"])
def test_functions_of_complex_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "silent")
    function = (lambda x: x.logsumexp(1)) if name == "logsumexp" else getattr(torch, name)
    check(lambda x, y: torch.view_as_real(function(torch.complex(x, y))), _a(3, 4), _a(4, 3).view(3, 4))


def test_gradients_of_dropout_of_integers_are_floats() -> None:
    x, mask = torch.arange(6).view(2, 3), torch.tensor([[True, False, True], [False, True, True]])
    backward = torch.ops.aten.native_dropout_backward.default
    torch.testing.assert_close(backward(x.to("vk"), mask.to("vk"), 2.0).cpu(), backward(x, mask, 2.0))


def test_special_functions() -> None:
    x = torch.tensor([-30, -7.5, -1, -0.3, 0, 0.01, 0.2, 0.7, 0.999, 1, 1.9, 2.1, 7.9, 8.1, 25, math.nan])
    names = "i0 i0e i1 i1e erfcx log_ndtr ndtri airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 "
    names += "modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 "
    for name in (names + "scaled_modified_bessel_k1 spherical_bessel_j0").split():
        function = getattr(torch.special, name)
        torch.testing.assert_close(function(x.to("vk")).cpu(), function(x), rtol=4e-5, atol=2e-6, equal_nan=True)
    check(lambda x: torch.special.i0e(x) + torch.special.i1(x), _a(3, 4))


def test_polynomials_of_numbers_of_python() -> None:
    x, degrees = torch.linspace(-1, 1, 7), torch.arange(5)
    for name in ("chebyshev_polynomial_t", "hermite_polynomial_h", "laguerre_polynomial_l"):
        polynomial = getattr(torch.special, name)
        torch.testing.assert_close(polynomial(x.to("vk"), 3).cpu(), polynomial(x, 3))
        torch.testing.assert_close(polynomial(0.5, degrees.to("vk")).cpu(), polynomial(0.5, degrees))


@pytest.mark.parametrize("is_flat", [False, True])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_connectionist_temporal_classification(is_flat: bool, zero_infinity: bool) -> None:
    inputs, lengths = [9, 8, 2, 0, 1], [4, 0, 3, 0, 1]  # the third sample has fewer steps than labels
    targets = torch.tensor([[1, 1, 2, 1], [0, 0, 0, 0], [2, 3, 1, -1], [5, 5, 5, 5], [3, 0, 0, 0]])
    if is_flat:
        targets = torch.cat([row[:n] for row, n in zip(targets, lengths, strict=True)])

    def loss(x: torch.Tensor) -> torch.Tensor:
        given = targets.to(x.device), torch.tensor(inputs), torch.tensor(lengths)
        losses = F.ctc_loss(x.log_softmax(2), *given, blank=0, reduction="none", zero_infinity=zero_infinity)
        return losses if zero_infinity else losses[:2]

    x = _a(9, 5, 4)
    torch.testing.assert_close(loss(x.to("vk")).cpu(), loss(x))
    if zero_infinity:
        check(loss, x)


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_pooling(n: int) -> None:
    function = F.fractional_max_pool2d if n == 2 else F.fractional_max_pool3d
    samples, x = torch.rand(2, 3, n), _a(2, 3, *[9, 7, 8][:n])

    def pooled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        given = samples[: len(x)].to(x.device)
        return function(x, 2, output_size=[4, 5, 3][:n], _random_samples=given, return_indices=True)

    torch.testing.assert_close(pooled(x.to("vk"))[1].cpu(), pooled(x)[1])
    check(lambda x: pooled(x)[0], x)
    check(lambda x: pooled(x)[0][0], x[:1])


def test_the_host_computes_refused_dtypes_and_hides_no_other_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from vkcompute.torch.fallback import guarded

    def faulty(self: Any) -> Any:
        return len(self.item())

    monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "silent")
    z = torch.ones(2, 3, dtype=torch.complex64, device="vk")
    torch.testing.assert_close(z.logcumsumexp(1).cpu(), z.cpu().logcumsumexp(1))
    with pytest.raises(TypeError, match="has no len"):
        guarded("abs", faulty)(z[0, 0])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_and_their_gradients(stride: int, padding: int, dilation: int, groups: int) -> None:
    x, w, b = _a(2, 4, 9, 8), _a(6, 4 // groups, 3, 2), _a(6)
    named = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    check(lambda x, w, b: F.conv2d(x, w, b, **named), x, w, b, atol=2e-4)
    check(lambda x, w: F.conv_transpose2d(x, w, None, output_padding=stride - 1, **named), x[:, :, :4, :4],
          _a(4, 6 // groups, 3, 2), atol=2e-4)  # fmt: skip


SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.5)
OF_SPECIAL: dict[str, Function] = {
    "heaviside": lambda x: torch.heaviside(x, x.flip(0)),
    "square root as power": lambda x: x**0.5,
    "reciprocal of a root as power": lambda x: x**-0.5,
    "median of nothing": lambda x: torch.stack([x[:0].median(), x[:0].nanmedian()]),
    "remainders of a number": lambda x: 7 % x,
    "remainders of an integer": lambda x: -7 % torch.tensor([2, -3, 5], device=x.device),
    "hardswish in place": lambda x: F.hardswish(x + 1, inplace=True),
    "shift in place": lambda x: torch.tensor([2, -3, 5], device=x.device).__ilshift__(2).__irshift__(1),
}


@pytest.mark.parametrize("name", OF_SPECIAL)
def test_special_values(name: str) -> None:
    result, expected = (OF_SPECIAL[name](torch.tensor(SPECIAL).to(device)).cpu() for device in ("vk", "cpu"))
    torch.testing.assert_close(result, expected, equal_nan=True)
    if result.is_floating_point():
        assert torch.equal(result.signbit() & (result == 0), expected.signbit() & (expected == 0))


def test_indices_of_another_image_are_out_of_range() -> None:
    x, indices = _a(2, 1, 2, 2).to("vk"), torch.tensor([[[[0, 3], [12, 15]]]]).expand(2, 1, 2, 2).to("vk")
    assert F.max_unpool2d(x, indices, 2)[1, 0, 0, 3] == x[1, 0, 0, 1]
    beyond = indices.clone()
    beyond[0, 0, 1, 1] = 16  # the first element of the second image
    with pytest.raises(IndexError, match="out of bounds"):
        F.max_unpool2d(x, beyond, 2).cpu()


def test_where_keeps_the_order_of_memory() -> None:
    def strides(x: torch.Tensor) -> list[tuple[int, ...]]:
        return [torch.where(x > 0, x, other).stride() for other in (x, x[:, :1], x.clone(), x[0], x.contiguous())]

    for x in (_a(4, 6).t(), _a(4, 6), _a(2, 3, 4, 5).permute(0, 3, 1, 2), _a(4, 6)[:, ::2]):
        assert strides(x.to("cpu")) == strides(torch.empty_strided(x.shape, x.stride(), device="vk").copy_(x))


def _deep(x: torch.Tensor) -> torch.Tensor:
    is_last = x.is_contiguous(memory_format=torch.channels_last)
    memory_format = torch.channels_last_3d if is_last else torch.contiguous_format
    return x[:, :, None].expand(-1, -1, 3, -1, -1).contiguous(memory_format=memory_format)


CHANNELS_LAST: dict[str, Function] = {
    "batch norm": lambda x: F.batch_norm(x, None, None, x[0].mean((1, 2)), x[0].amax((1, 2)), training=True),
    "batch norm of float16": lambda x: F.batch_norm(x.half(), None, None, training=True),
    "group norm": lambda x: F.group_norm(x, 2),
    "adaptive mean": lambda x: F.adaptive_avg_pool2d(x, 3),
    "largest": lambda x: F.max_pool2d(x, 2),
    "slopes": lambda x: F.rrelu(x, 0.1, 0.3),
    "elements at indices": lambda x: torch.take(x, (x > 0).long()),
    "positive": lambda x: torch.nonzero(x > 0),
    "largest of volumes": lambda x: F.max_pool3d(_deep(x), (1, 2, 2)),
    "largest of one volume": lambda x: F.max_pool3d(_deep(x)[0], (1, 2, 2), return_indices=True)[1],
}


@pytest.mark.parametrize("function", CHANNELS_LAST.values(), ids=[*CHANNELS_LAST])
@pytest.mark.parametrize("memory_format", [torch.channels_last, torch.contiguous_format], ids=str)
def test_results_have_the_memory_format_of_their_input(function: Function, memory_format: torch.memory_format) -> None:
    """Graphs that are compiled count on the strides that PyTorch predicts."""
    host = torch.randn(2, 4, 6, 5).contiguous(memory_format=memory_format)
    device = torch.empty_like(host, device="vk").copy_(host)
    expected, result = function(host), function(device)
    assert result.stride() == expected.stride()
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-3, atol=1e-3)


def test_signals_are_convolved() -> None:
    check(lambda x, w: F.conv1d(x, w, stride=2, padding=1), _a(2, 3, 9), _a(4, 3, 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int32, torch.uint8], ids=str)
def test_dtypes_promote_as_on_the_cpu(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKCOMPUTE_TORCH_FALLBACK", "silent")  # a device may lack float64
    host = torch.arange(1, 7).view(2, 3).to(dtype)
    for function in (lambda x: x + 1, lambda x: x * 2.5, lambda x: x / 2, lambda x: x.sum(), lambda x: x > 2,
                     lambda x: x.float() @ x.float().t(), lambda x: x.sqrt(), lambda x: x.cumsum(0)):  # fmt: skip
        torch.testing.assert_close(function(host.to("vk")).cpu(), function(host), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_images_of_bytes_are_resized_as_on_the_cpu(mode: str, antialias: bool) -> None:
    image = torch.randint(0, 2, (1, 3, 20, 26)).mul(255).to(torch.uint8)  # cubic steps go beyond 0 and 255
    for size in (15, 15), (50, 43):
        host, device = (F.interpolate(x, size=size, mode=mode, antialias=antialias) for x in (image, image.to("vk")))
        assert device.dtype == torch.uint8
        most = 0 if "AVX" in torch.backends.cpu.get_cpu_capability() else 1  # other CPUs have weights of floats
        assert (device.cpu().int() - host.int()).abs().max() <= most


def test_fractional_pooling_of_no_images() -> None:
    pooled = torch.nn.FractionalMaxPool3d(2, output_size=1).to("vk")(torch.ones(0, 4, 5, 5, 5, device="vk"))
    assert pooled.shape == (0, 4, 1, 1, 1)


INTO: dict[str, Callable[..., Any]] = {
    "sum": lambda x, out: torch.sum(x, 1, out=out), "mean": lambda x, out: torch.mean(x, 0, keepdim=True, out=out),
    "norm": lambda x, out: torch.linalg.vector_norm(x, 2, 1, out=out), "amax": lambda x, out: torch.amax(x, 1, out=out),
    "cumsum": lambda x, out: torch.cumsum(x, 1, out=out), "mm": lambda x, out: torch.mm(x, x.t(), out=out),
    "addmm": lambda x, out: torch.addmm(x[:, :3], x, x.t(), out=out), "tril": lambda x, out: torch.tril(x, out=out),
    "logcumsumexp": lambda x, out: torch.logcumsumexp(x, 1, out=out), "cat": lambda x, out: torch.cat([x, x], out=out),
    "gather": lambda x, out: torch.gather(x, 1, torch.zeros(3, 2, dtype=torch.int64, device=x.device), out=out),
    "all": lambda x, out: torch.all(x > 0.2, 1, out=out), "argmax": lambda x, out: torch.argmax(x, 1, out=out),
    "digamma": lambda x, out: torch.digamma(x, out=out), "pow": lambda x, out: torch.pow(x, 0, out=out),
    "avg_pool": lambda x, out: torch._C._nn.avg_pool2d(x[None], 2, 1, out=out),
    "addmv": lambda x, out: torch.addmv(x[:, 0], x, x[0], out=out),
    "amin of all": lambda x, out: torch.amin(x, (0, 1), out=out),
    "bmm of no terms": lambda x, out: torch.bmm(x[None, :, :0], x[None, :0], out=out),
    "stack": lambda x, out: torch.stack([x, x], out=out), "softmax": lambda x, out: torch.softmax(x, 1, out=out),
    "take": lambda x, out: torch.take(x, _zeros(x, 3), out=out), "nansum": lambda x, out: torch.nansum(x, 1, out=out),
    "chosen": lambda x, out: torch.masked_select(x, x > 0.2, out=out), "max": lambda x, out: torch.max(x, out=out),
    "bucketize": lambda x, out: torch.bucketize(x, torch.tensor([0.0, 0.5], device=x.device), out=out),
    "searchsorted": lambda x, out: torch.searchsorted(x[0].sort()[0], x, out=out),
    "addbmm": lambda x, out: torch.addbmm(x[:, :3], x[None], x.t()[None], out=out),
    "hardtanh": lambda x, out: torch._C._nn.hardtanh(x, -0.1, 0.1, out=out),
    "columns": lambda x, out: torch._C._nn.im2col(x[None], 2, 1, 0, 1, out=out),
    "reflected": lambda x, out: torch._C._nn.reflection_pad2d(x[None], [1, 1, 1, 1], out=out),
    "multi_margin_loss": lambda x, out: torch._C._nn.multi_margin_loss(x, _zeros(x, 3), out=out),
    "0-d index_add": lambda x, out: torch.index_add(x[0, 0], 0, _zeros(x, 1), x[0, 1], out=out),
}  # fmt: skip


_OTHER_DTYPES = {"all": torch.bool} | dict.fromkeys(("argmax", "bucketize", "searchsorted"), torch.int64)

_SILENT = "addbmm", "columns", "reflected", "multi_margin_loss"
"""Functions whose results the CPU resizes without its warning."""


def _zeros(like: torch.Tensor, n: int) -> torch.Tensor:
    return torch.zeros(n, dtype=torch.int64, device=like.device)


@pytest.mark.parametrize("length", [0, 3, 18])
@pytest.mark.parametrize("name", INTO)
def test_tensors_for_results_get_their_shape(name: str, length: int) -> None:
    x, dtype = _a(3, 4), _OTHER_DTYPES.get(name, torch.float32)
    host, device = (torch.arange(40, device=kind).to(dtype) for kind in ("cpu", "vk"))
    parts = [memory[3 : 3 + 2 * length].view(-1, 2) if length else memory[3:3] for memory in (host, device)]
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        INTO[name](x, parts[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert INTO[name](x.to("vk"), parts[1]) is parts[1]
    torch.testing.assert_close(parts[1].cpu(), parts[0])
    torch.testing.assert_close(device.cpu(), host)  # in the same memory
    if name not in _SILENT:
        assert [str(x.message)[:100] for x in caught] == [str(x.message)[:100] for x in expected]


OF_NOTHING: dict[str, Callable[..., Any]] = {
    "clamp_max": lambda x, out: torch.clamp_max(x, 1, out=out), "lgamma": lambda x, out: torch.lgamma(x, out=out),
    "angle": lambda x, out: torch.angle(x, out=out), "sum": lambda x, out: torch.sum(x, 0, out=out),
    "nanmedian": lambda x, out: torch.nanmedian(x, 1, out=(out, out.long())),
    "bernoulli": lambda x, out: torch.bernoulli(x, out=out),
    "inverse": lambda x, out: torch.linalg.inv(x[:, :0], out=out),  # which the host computes
    "solution": lambda x, out: torch.linalg.lstsq(x[None, :, :2], x[None], out=(out, out, out.long(), out)),
}  # fmt: skip


@pytest.mark.parametrize("function", [*INTO.values(), *OF_NOTHING.values()], ids=[*INTO, *OF_NOTHING])
@pytest.mark.parametrize("shape", [(), (0,), (3, 4)], ids=str)
def test_tensors_of_another_device_for_results_are_refused(function: Callable[..., Any], shape: tuple[int]) -> None:
    x = torch.ones(0, 4, device="vk") if function in OF_NOTHING.values() else _a(3, 4).to("vk")
    out = torch.empty(shape)
    with pytest.raises(RuntimeError, match=r"two devices, vk:0 and cpu!|expected device vk:0|have the correct device"):
        function(x, out)  # PyTorch checks some itself, and has resized that of `stack` before the device is asked
    assert out.shape == shape or function is INTO["stack"]


def test_functions_of_reals_into_complex_numbers_are_real() -> None:
    x = torch.tensor([-4.0, 0.0, 4.0])
    for function in torch.sqrt, torch.reciprocal, torch.log:
        host, device = (
            function(y, out=torch.empty(3, dtype=torch.complex64, device=y.device)) for y in (x, x.to("vk"))
        )
        torch.testing.assert_close(device.cpu(), host, equal_nan=True)
