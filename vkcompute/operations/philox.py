"""Philox 4x32: random words from a counter and a key, which keeps no state.

J. Salmon, M. Moraes, R. Dror, D. Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
"""Rounds of Philox 4x32-10."""


def philox(f: Any, counter: Sequence[Any], key: Sequence[Any], n_rounds: int = ROUNDS) -> list[Any]:
    """Returns four words, uint32, of the four of a counter and the two of a key (section 3.3, figure 2).

    The key may be of scalars where the counter is of blocks.
    """
    x, k = [*counter], [*key]
    for _ in range(n_rounds):
        factors = [f.number(number, x[0].kind) for number in _MULTIPLIERS]
        high, low = ([f.op(code, m, x[2 * n]) for n, m in enumerate(factors)] for code in ("mul_high", "mul"))
        mixed = [f.op("xor", f.op("xor", high[1 - n], x[2 * n + 1]), f.spread(k[n])) for n in range(2)]
        x = [mixed[0], low[1], mixed[1], low[0]]
        k = [word.f.op("add", word, step) for word, step in zip(k, _WEYL, strict=True)]
    return x
