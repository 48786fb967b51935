"""Compares programs compiled by torch.compile for PyTorch's device with the CPU, where they are not compiled.

    python scripts/torch_compiled.py build/compiled.jsonl [--only TEXT] [--part 0/2] [--together 6]

Results are lines of a file, which a later run continues: a program that ended the process has the state "running". A
program that Inductor does not compile has the state "falls back", with the reason.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

TENSORS = {
    "x": ("float32", (33, 70)), "y": ("float32", (33, 70)), "z": ("float32", (33, 1)), "v": ("float32", (70,)),
    "w": ("float32", (70, 24)), "s": ("positive", (33, 70)), "h": ("float16", (33, 70)), "g": ("bfloat16", (33, 70)),
    "a": ("int32", (33, 70)), "i": ("int64", (33, 70)), "b": ("uint8", (33, 70)), "k": ("int8", (33, 70)),
    "q": ("int16", (33, 70)), "m": ("bool", (33, 70)), "j": ("index", (20,)), "l": ("index", (33,)),
    "c": ("float32", (2, 4, 12, 10)), "e": ("float32", (3, 4, 1, 3, 3)), "r": ("float32", (9, 3000)),
    "t": ("float32", (5, 4, 7)),
    "o": ("float32", (1,)), "u": ("float32", (2, 3, 8, 16)), "d": ("float64", (33, 70)),
}  # fmt: skip
"""Kinds and shapes of the tensors that programs name."""

PROGRAMS = """
x + y; x * y - 2 / (x.abs() + 1); x.sin() * y.cos(); (x * 2).tanh() + y.sigmoid(); s.log() + s.sqrt() + s.rsqrt()
x.exp() + x.expm1(); s.log1p() + s.log2() + s.log10(); x.erf() + x.erfc(); s.lgamma() + s.digamma(); x.atan2(y)
x.sinh() + x.cosh() + x.asinh(); (x / 4).clamp(-0.9, 0.9).atanh() + (x / 9).acos() + (x / 9).asin() + x.atan()
x.floor() + y.ceil() + x.trunc() + (x * 3).round() + x.frac(); x.remainder(y.abs() + 1); torch.fmod(x, y.abs() + 1)
x.clamp(-0.5, 0.5); torch.where(x > y, x, y * 2); x.maximum(y) + x.minimum(y); x.sign() + y.signbit(); x.copysign(y)
torch.hypot(x, y); s.pow(y); x.pow(3) + x.square() + x.reciprocal(); torch.lerp(x, y, 0.3); x.addcmul(y, y, value=2)
x.addcdiv(y, s, value=0.5); x.nan_to_num() + (y / 0).nan_to_num(); (x / 0).isinf() & (x == x); x.isnan() | (y > 0)
F.relu(x) + F.gelu(y); F.silu(x) * F.mish(y); F.softplus(x) + F.elu(y); F.leaky_relu(x) + F.hardtanh(y)
F.gelu(x, approximate='tanh') + F.selu(y); F.hardswish(x) + F.hardsigmoid(y); F.logsigmoid(x) + F.softsign(y)
F.glu(x); F.celu(x) + F.relu6(x) + F.hardshrink(x) + F.softshrink(x) + F.tanhshrink(x) + F.threshold(x, 0.1, 2.0)
torch.special.i0(x) + torch.special.i1(x); torch.special.erfcx(s) + torch.special.ndtri(x.sigmoid())
x.ldexp(y.round()); torch.special.bessel_j0(s) + torch.special.bessel_y1(s); torch.special.modified_bessel_k0(s)
s.frexp()[0]; x.sinc(); torch.polygamma(1, s); torch.special.entr(s) + torch.special.xlog1py(s, y.abs())
torch.nextafter(x, y); x.logit(1e-3); x + z; x * v + z; z * v; x + 1.5; 2 - x; v[:, None] * v; x[:, :1] + y[:1]
x.expand(2, 33, 70) * 2; a + i; a * 3 - 7; i // 3 + i % 4; -a // 4; a & 6 | 9 ^ a; ~a + (a << 2) + (a >> 1); b + 200
b * b; k - 100; q * q + k; a / 4; i.float() * x; a.bitwise_left_shift(3); i.abs() + i.neg() + i.sign()
m & (x > 0) | ~m; m ^ (y > 0); m + m; m * x; a.clamp(1, 4); i.maximum(a) - i.minimum(a); (x * 40).to(torch.int32)
(x * 40).to(torch.uint8); (x * 40).to(torch.int8); (x * 9).long() // 2; i.to(torch.float16); x.bool(); m.int() + 2
(i > 3).sum(); torch.div(i, 3, rounding_mode='trunc'); torch.div(x, s, rounding_mode='floor'); i.gcd(a.long())
torch.bitwise_not(b); x.view(torch.int32) & 255; h + h * 2; h.exp() + h; g * g + 1; g.sigmoid() + g.tanh()
(h * g).float(); h.float().softmax(1).half(); g.softmax(-1); h.sum(1); g.mean(0); g.var(1); h.to(torch.bfloat16) + g
h @ w.half(); g @ w.bfloat16(); h.norm(dim=1); g.cumsum(1); h.amax(0); d * 2 + d.sin(); d.sum(1) + d.mean(1)
d.softmax(1); x.double() + d; d.float() * x; d.exp().log(); d.pow(3); x.sum(); x.mean(); x.sum(0); x.sum(1)
x.mean(1, keepdim=True) * y; x.amax(1) - x.amin(1); x.prod(1); x.abs().max(); x.argmax(1); x.argmin(0); x.argmax()
x.max(1)[1] + x.min(1)[1]; x.max(0)[0]; x.any(1); (x > -9).all(); m.any(0); x.var(1); x.std(0)
torch.var_mean(x, 1)[0] + torch.var_mean(x, 1)[1]; x.norm(); x.norm(1, dim=0); x.logsumexp(1); x.softmax(1)
x.log_softmax(0); F.normalize(x); (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True); x.count_nonzero(1); r.sum()
r.sum(1); r.sum(0); r.softmax(1); r.var(1); r.argmax(1); r.amax(); r.mean() + r.std(); (r * r).sum(1).sqrt()
t.sum((0, 2)); t.mean(1); t.amax((1, 2)); u.sum((1, 3)); u.var((2, 3)); u.permute(0, 2, 1, 3).sum(-1); u.sum(2).sum(0)
x.cumsum(1); x.cumsum(0); (x / 2).cumprod(1); x.cummax(1)[0]; x.cummin(1)[1]; x.logcumsumexp(1); r.cumsum(1)
i.cumsum(1); x.sort(1)[0]; x.sort(dim=1, descending=True, stable=True)[1]; x.topk(5, 1)[0]; x.kthvalue(3, 1)[0]
x.median(1)[0]; v.sort()[0] * 2; x.t() + 1; x.t().contiguous() * 2; x.reshape(70, 33) + y.t()
x.view(33, 7, 10).permute(2, 0, 1) * 2; x.flip(1) + y.flip(0); x.roll(3, 1); x[::2, 1::3] * 2; x[5:20] + y[3:18]
x[..., -1] * 2; x.unsqueeze(1) * y.unsqueeze(0)[:, :33]; x.diagonal() + 1; torch.cat([x, y], 1) * 2
torch.cat([x, y.relu()], 0).sum(1); torch.stack([x, y, x * y]); torch.cat([x[:, :5], y], 1)
x.chunk(2, 1)[0] * x.chunk(2, 1)[1]; x.split(10, 0)[1] + 1; x.unbind(0)[3] * 2; x.repeat(2, 3); x.tile(2) + 1
x.repeat_interleave(2, 1); x.tril() + y.triu(1); torch.tril(x @ y.t()); x.unfold(1, 5, 3).sum(-1)
x.as_strided((5, 6), (70, 2), 3) * 2; torch.meshgrid(v, v, indexing='ij')[0] * 2
torch.arange(70, device=x.device) * x; torch.linspace(0, 1, 70, device=x.device) + x
torch.zeros_like(x) + torch.ones_like(y) * 3; torch.full((33, 70), 2.5, device=x.device) * x
torch.eye(33, device=x.device) @ x; F.pad(x, (1, 2, 3, 4)) * 2; F.pad(c, (1, 1, 2, 2), mode='reflect')
F.pad(c, (1, 1, 2, 2), mode='replicate'); F.pad(c, (-1, 2, 1, -2)); F.pad(c, (2, 1, 1, 2), mode='circular')
F.one_hot(i) * 2; torch.nn.functional.pixel_shuffle(c, 2); F.pixel_unshuffle(c, 2); x[j]; x[j] * 2 + y[j]; x[j, j]
x[:, j % 70] * 2; x[j[:, None], j[None] % 70]; x[l] + x; x.index_select(0, j).sum(0); x.gather(1, i) * 2; x.take(i)
x[x > 0.5].sum(); x.masked_fill(m, -1.0); torch.where(m, x, 0.0).sum(1); x.where(m, y)
x.scatter(1, torch.arange(70, device=x.device).flip(0).expand(33, 70), y); x.index_add(0, j, x[:20])
x.index_copy(0, l[:1], y[:1]); x.index_fill(1, j % 70, 3.0)
x.clone().index_put((torch.arange(20, device=x.device) + 9,), x[:20])
torch.zeros(10, 70, device=x.device).index_add(0, l % 10, x)
torch.zeros(33, 70, device=x.device).scatter_add(1, i, x)
torch.zeros(33, 70, device=x.device).scatter_reduce(1, i, x, 'amax'); x.index_put((l % 3,), y, accumulate=True)
x.masked_scatter(m, y); torch.bucketize(x, v.sort()[0]); torch.searchsorted(v.sort()[0], x)
torch.bincount(i.flatten()); F.embedding(i % 9, x[:9]); x.select_scatter(v, 0, 3); x.slice_scatter(y[:4], 0, 2, 6)
x.diagonal_scatter(v[:33]); torch.take_along_dim(x, i, 1); x.nonzero().sum(); torch.unique(i); x @ w; x @ w + 1
F.linear(x, w.t(), v[:24]).relu(); torch.addmm(v[:24], x, w) * 2; x.mm(y.t()).softmax(1); t @ t.transpose(1, 2)
torch.einsum('ij,kj->ik', x, y) * 2; torch.baddbmm(t @ t.transpose(1, 2), t, t.transpose(1, 2)); v @ w; x @ v
v.dot(v); torch.outer(v, v); F.scaled_dot_product_attention(u, u, u)
F.scaled_dot_product_attention(u, u, u, is_causal=True) * 2; torch.cdist(x, y).sum()
F.conv2d(c, e[0].expand(4, 4, 3, 3), v[:4], padding=1).relu(); F.conv2d(c, e[0], groups=4) * 2
F.conv1d(t, x[:8, :12].view(8, 4, 3)[:, :4]); F.conv_transpose2d(c, e[0].expand(4, 4, 3, 3), stride=2)
F.max_pool2d(c, 2) * 2; F.avg_pool2d(c, 3, 2, 1); F.adaptive_avg_pool2d(c, (5, 3))
F.interpolate(c, scale_factor=2, mode='nearest'); F.interpolate(c, size=(7, 9), mode='bilinear')
F.interpolate(c, scale_factor=2, mode='bicubic'); F.layer_norm(x, (70,), v, v) * 2; F.group_norm(c, 2)
F.batch_norm(x, None, None, training=True); F.instance_norm(c); F.rms_norm(x, (70,), v); F.cross_entropy(x, i[:, 0])
F.nll_loss(x.log_softmax(1), i[:, 0]); F.mse_loss(x, y); F.smooth_l1_loss(x, y); F.huber_loss(x, y)
F.binary_cross_entropy_with_logits(x, y.sigmoid()); F.kl_div(x.log_softmax(1), y.softmax(1))
F.cosine_similarity(x, y); F.l1_loss(x, y); x.add_(1), x * 2; x.mul_(y).sin(); x[2].zero_(), x + 1
x[:, 3].copy_(y[:, 1]), x; x.t().add_(1), x.sum(0); y.copy_(x * 2), y.sum(); torch.complex(x, y).abs()
torch.view_as_complex(u.view(2, 3, 8, 8, 2)).real * 2; torch.polar(s, x).imag; torch.fft.rfft(x).abs()
x if x.sum() > 1e9 else y; x * int(x.shape[0]) + len(y); [x * 1, x * 2]; {'p': x + 1, 'q': (y, x.sum())}
torch.vmap(lambda p, q: (p * q).sum())(x, y); torch.func.grad(lambda p: (p ** 3).sum())(x)
torch.func.jacrev(lambda p: p ** 2)(v); F.dropout(x, 0.5, training=False); x.detach() * y
x.item() if x.numel() == 1 else x.numel() * v; o.item() * x; x.to('cpu') + 1
"""
"""Expressions without gradients, one after another; tensors are those of TENSORS."""

WITH_GRADIENTS = """
x * y + y.sin(); (x @ w).relu().sum(1); x.softmax(1) * y; F.layer_norm(x, (70,), v, v); F.gelu(x) * F.silu(y)
x.var(1); F.cross_entropy(x, i[:, 0]); x[j] * 2; x.gather(1, i); F.embedding(i % 9, x) * 2
torch.cat([x, y], 1).tanh(); x.cumsum(1); F.conv2d(c, e[0].expand(4, 4, 3, 3), padding=1).relu(); F.max_pool2d(c, 2)
F.avg_pool2d(c, 2); F.group_norm(c, 2); x.t() * 2; F.scaled_dot_product_attention(u, u, u, is_causal=True)
F.batch_norm(x, None, None, training=True); F.interpolate(c, scale_factor=2); x.logsumexp(1) + x.mean(1); x.amax(1)
s.pow(y) + s.log(); torch.where(x > y, x * 2, y); x.masked_fill(m, 0.0); F.rms_norm(x, (70,), v); r.softmax(1)
r.var(1); x.expand(3, 33, 70) * y; x.sort(1)[0]; x.topk(4)[0]; F.normalize(x); x.norm(dim=1); t @ t.transpose(1, 2)
"""
"""Expressions of which the gradients of the sum of squares are compared, too."""

DYNAMIC = """
x * y + 1; x.sum(1); x.sum(0); x.softmax(1); (x @ w).relu(); x.reshape(-1, 2) * 2; x[1:-1] + 1; torch.cat([x, y], 0)
x.t() * 2; x.mean() * x.shape[0]; x.cumsum(0); torch.arange(x.shape[0], device=x.device)[:, None] * x; x.var(0)
F.pad(x, (1, 1)); x.argmax(1)
"""
"""Expressions that are compiled once for two lengths of the first axis."""


def named(text: str) -> list[str]:
    """Returns the tensors that an expression names."""
    code = compile(text, text, "eval")
    return [name for name in TENSORS if name in code.co_names and f"{name}" in text]


def tensor(name: str, *, longer: int = 0) -> Any:
    """Returns a tensor of the host, the same at each call."""
    kind, shape = TENSORS[name]
    random = torch.Generator().manual_seed(sum(map(ord, name)) + longer)
    if longer and shape[0] == 33:
        shape = (33 + longer, *shape[1:])
    if kind == "positive":
        return torch.rand(shape, generator=random) * 3 + 0.1
    if kind == "index":
        return torch.randint(0, 33, shape, generator=random)
    if kind == "bool":
        return torch.randn(shape, generator=random) > 0
    dtype = getattr(torch, kind)
    if not dtype.is_floating_point:
        return torch.randint(0, 10, shape, generator=random).to(dtype)
    return torch.randn(shape, generator=random).to(dtype)


def function_of(text: str) -> Any:
    """Returns a function of the tensors that an expression names."""
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "__name__": "programs"}
    exec(compile(f"def program({', '.join(named(text))}):\n    return {text}\n", f"<{text}>", "exec"), scope)
    return scope["program"]


def outcome(function: Any, values: list[Any], device: str, gradients: bool) -> list[Any]:
    """Returns the tensors of a result, those of the arguments after it, and the gradients."""
    given = [value.to(device, copy=True) for value in values]
    for value in given if gradients else ():
        value.requires_grad_(value.is_floating_point())
    results = torch.utils._pytree.tree_leaves(function(*given))
    if gradients:
        sum(x.square().sum() for x in results).backward()
    leaves = [*results, *given, *[value.grad for value in given if value.grad is not None]]
    return [x.detach().cpu() if isinstance(x, torch.Tensor) else x for x in leaves]


def compare(results: list[Any], expected: list[Any]) -> None:
    """Raises AssertionError where results differ."""
    assert len(results) == len(expected), (len(results), len(expected))
    for result, wanted in zip(results, expected, strict=True):
        if not isinstance(wanted, torch.Tensor):
            assert result == wanted or abs(result - wanted) <= 1e-4 * abs(wanted), (result, wanted)
            continue
        rtol, atol = {torch.bfloat16: (2e-2, 1e-2), torch.float16: (4e-3, 2e-3)}.get(wanted.dtype, (1e-4, 1e-5))
        finite = wanted[wanted.isfinite()] if wanted.is_floating_point() else wanted.flatten()[:0]
        size = max(1.0, float(finite.abs().max())) if finite.numel() else 1.0
        torch.testing.assert_close(
            result, wanted, equal_nan=True, rtol=rtol, atol=atol * size, check_stride=False
        )  # sums of large terms may be small


def programs() -> list[tuple[str, str]]:
    """Returns the programs: what is compared, and an expression."""
    texts = {"": PROGRAMS, "gradients": WITH_GRADIENTS, "dynamic": DYNAMIC}
    lines = [
        (kind, text.strip()) for kind, many in texts.items() for line in many.splitlines() for text in line.split(";")
    ]
    return [(kind, text) for kind, text in lines if text]


def checked(kind: str, texts: Sequence[str]) -> dict[str, Any]:
    """Returns the record of a program that returns the values of expressions."""
    text = texts[0] if len(texts) == 1 else f"({', '.join(f'({text})' for text in texts)})"
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.vk.clear_fallbacks()
    record: dict[str, Any] = {"state": "right"}
    compiled = torch.compile(function_of(text), dynamic=kind == "dynamic" or None)
    try:
        for longer in (0, 17) if kind == "dynamic" else (0,):
            values = [tensor(name, longer=longer) for name in named(text)]
            expected = outcome(function_of(text), values, "cpu", kind == "gradients")
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                results = outcome(compiled, values, "vk", kind == "gradients")
            compare(results, expected)
            reasons = [str(warning.message) for warning in said if "is not compiled" in str(warning.message)]
            if reasons:
                record.update(state="falls back", why=reasons[0][:300])
    except Exception as error:  # the summary has all programs
        record.update(state="wrong" if isinstance(error, AssertionError) else "error",
                      why=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")  # fmt: skip
    breaks = sum(torch._dynamo.utils.counters["graph_break"].values())
    return record | {"breaks": breaks, "host": sorted(torch.vk.fallbacks())}


def records_of(batch: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Yields the records of programs of one kind: compiled together, then each one alone unless all are right."""
    kind, texts = batch[0][0], [text for _, text in batch]
    together = checked(kind, texts)
    is_right = together["state"] == "right" and not together["breaks"] and not together["host"]
    for text in texts:
        yield {"program": name_of(kind, text)} | (together if is_right or len(texts) == 1 else checked(kind, [text]))


def batches(missing: Sequence[tuple[str, str]], n: int) -> Iterator[list[tuple[str, str]]]:
    """Yields programs that are compiled together; those that write to their arguments are alone."""
    for _, group in itertools.groupby(missing, key=lambda program: program[0]):
        waiting: list[tuple[str, str]] = []
        for program in group:
            if "_(" in program[1] or "item()" in program[1]:
                yield [program]
                continue
            waiting.append(program)
            if len(waiting) == n:
                yield waiting
                waiting = []
        if waiting:
            yield waiting


def name_of(kind: str, text: str) -> str:
    """Returns the name of a program."""
    return f"{kind} {text}".strip()


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Returns the records of a file by program; the last one counts."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {record["program"]: record for record in map(json.loads, lines)}


def summary(records: dict[str, dict[str, Any]]) -> str:
    """Returns the numbers of programs by state, and all that are not right or leave the graph or the device."""
    states = collections.Counter(record["state"] for record in records.values())
    rows = [
        f"  {name}: {record['state']} {record.get('why', '')} {' '.join(record.get('host', ()))}"
        for name, record in records.items()
        if record["state"] != "right" or record.get("host")
    ]
    return "\n".join([str(dict(states)), *rows])


def main() -> int:
    """Checks the programs whose results the file lacks, and prints a summary; returns 1 if one is wrong or raises."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--together", type=int, default=6, help="programs that are compiled at a time")
    options = parser.parse_args()
    os.environ.setdefault("VKCOMPUTE_TORCH_FALLBACK", "silent")
    import vkcompute.torch  # noqa: F401

    options.results.parent.mkdir(parents=True, exist_ok=True)
    known, (part, n_parts) = read(options.results), map(int, options.part.split("/"))
    missing = [
        (kind, text)
        for kind, text in programs()[part::n_parts]
        if (options.only in name_of(kind, text) if options.only else name_of(kind, text) not in known)
    ]
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(options.results.open("a"))
        for batch in batches(missing, options.together):
            for program in batch:
                print(json.dumps({"program": name_of(*program), "state": "running"}), file=file, flush=True)
            for record in records_of(batch):
                print(json.dumps(record), file=file, flush=True)
    records = read(options.results)
    print(summary(records))
    return int(any(record["state"] not in ("right", "falls back") for record in records.values()))


if __name__ == "__main__":
    raise SystemExit(main())
