"""Random functions of the intermediate form: nested branches and loops that end, on bools and integers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from vkcompute import ir

N_INVOCATIONS = 16
SLOTS = 4  # elements of `out` that belong to each invocation
N_SOURCE = 64
_WORDS = (ir.INT32, ir.UINT32)
_WIDE = (ir.INT64, ir.UINT64)
_INTEGER = ("add", "sub", "mul", "min", "max", "and", "or", "xor")
_OF_WORDS = ("bit_count", "bit_reverse", "find_msb", "find_lsb")
_NUMBERS = (0, 1, 2, 3, -1, 7, 255, 65536, 2**31 - 1, -(2**31))
_WIDE_NUMBERS = (*_NUMBERS, 2**31, 2**32, -(2**33), 2**40 - 1, 2**63 - 1, -(2**63))


@st.composite
def functions(draw: st.DrawFn, *, wide: bool = False) -> ir.Function:
    """A function that reads `src` (int32, N_SOURCE) and its own SLOTS elements of `out` (int32), and writes these.

    It computes with integers of 32 bits, with `wide` also of 64.
    """
    function = ir.Function("random", local_size=(draw(st.sampled_from((1, 8))), 1, 1))
    source, out = function.buffer("src", ir.INT32), function.buffer("out", ir.INT32)
    bias = function.push("bias", ir.INT32)
    _Writer(draw, function, source, out, bias, (*_WORDS, *_WIDE * wide)).body()
    return function


class _Writer:
    def __init__(
        self,
        draw: Any,
        function: ir.Function,
        source: ir.Memory,
        out: ir.Memory,
        bias: ir.Value,
        integers: tuple[ir.Scalar, ...],
    ) -> None:
        self._draw, self._b = draw, ir.Builder(function)
        self._integers, self._kinds = integers, (*integers, ir.BOOL)
        self._source, self._out, self._bias = source, out, bias
        self._known = [draw(st.booleans()) for _ in "pq"]
        kinds = ir.INT32, integers[-2]
        self._arrays = [ir.Memory(name, kind, SLOTS, private=True) for name, kind in zip("pq", kinds, strict=True)]

    def body(self) -> None:
        """The whole function."""
        me = self._b.builtin("global_id")
        self._base = self._b.compute("mul", me, self._b.const(SLOTS, ir.UINT32))
        for array in self._arrays:
            self._b.fill(array, self._b.const(self._one(*_NUMBERS), array.element))
        self._statements([self._bias, me], depth=3, loop=None)

    def _one(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def _value(self, scope: list[ir.Value], kind: ir.Scalar) -> ir.Value:
        """Something of that type: one in scope, most likely."""
        known = [value for value in scope if value.type is kind]
        if known and self._draw(st.integers(0, 4)):
            result: ir.Value = self._one(*known)
            return result
        numbers = _WIDE_NUMBERS if kind in _WIDE else _NUMBERS
        return self._b.const(self._one(False, True) if kind is ir.BOOL else self._one(*numbers), kind)

    def _statements(self, scope: list[ir.Value], depth: int, loop: ir.Loop | None) -> None:
        """Some statements; what they compute is added to `scope`. They may end the region."""
        for _ in range(self._draw(st.integers(1, 4))):
            choice = self._draw(st.integers(0, 9))
            if choice < 6 or not depth:
                scope.append(self._computed(scope))
                self._kept(scope)
            elif choice < 8:
                scope += self._branch(scope, depth, loop)
            else:
                scope += self._loop(scope, depth)
            if not self._b.reachable:
                return
        self._show(scope)

    def _computed(self, scope: list[ir.Value]) -> ir.Value:
        b, kind = self._b, self._one(*self._integers)
        choice = self._draw(st.integers(0, 8))
        if choice == 8:
            code = self._one("mul_high", *_OF_WORDS)
            return b.compute(code, *(self._value(scope, ir.UINT32) for _ in range(1 if code in _OF_WORDS else 2)))
        if choice < 3:
            return b.compute(self._one(*_INTEGER), self._value(scope, kind), self._value(scope, kind))
        if choice == 3:
            return b.compute(self._one("eq", "ne", "lt", "le", "gt", "ge"), *(self._value(scope, kind) for _ in "pq"))
        if choice == 4:  # a positive divisor, a shift by less than the bits
            code = self._one("div", "rem", "mod", "shl", "shr")
            limit = kind.bits - 1 if code[:2] == "sh" else self._one(255, 2 ** (kind.bits - 2) - 1)
            small = b.compute("and", self._value(scope, kind), b.const(limit, kind))
            other = small if code[:2] == "sh" else b.compute("or", small, b.const(1, kind))
            return b.compute(code, self._value(scope, kind), other)
        if choice == 5:
            return b.cast(self._value(scope, self._one(*self._kinds)), self._one(*self._kinds))
        if choice == 6:
            return b.select(self._value(scope, ir.BOOL), self._value(scope, kind), self._value(scope, kind))
        return self._loaded(scope)

    def _loaded(self, scope: list[ir.Value]) -> ir.Value:
        choice = self._draw(st.integers(0, 3))
        if choice == 0:
            return self._b.load(self._out, self._slot())
        if choice == 1:
            return self._b.load(*self._element(scope))
        index = self._b.compute("and", self._value(scope, ir.UINT32), self._b.const(N_SOURCE - 1, ir.UINT32))
        return self._b.load(self._source, index)

    def _kept(self, scope: list[ir.Value]) -> None:
        """Writes an element of a private array, or all."""
        choice = self._draw(st.integers(0, 5))
        if choice < 2:
            array, index = self._element(scope)
            self._b.store(array, index, self._value(scope, array.element))
        elif choice == 2:
            array = self._element(scope)[0]
            self._b.fill(array, self._value(scope, array.element))

    def _element(self, scope: list[ir.Value]) -> tuple[ir.Memory, ir.Value]:
        """An element of a private array; the indices of some arrays are all constants."""
        b, at = self._b, self._draw(st.integers(0, 1))
        if self._known[at]:
            return self._arrays[at], b.const(self._draw(st.integers(0, SLOTS - 1)), ir.UINT32)
        return self._arrays[at], b.compute("and", self._value(scope, ir.UINT32), b.const(SLOTS - 1, ir.UINT32))

    def _slot(self) -> ir.Value:
        return self._b.compute("add", self._base, self._b.const(self._draw(st.integers(0, SLOTS - 1)), ir.UINT32))

    def _show(self, scope: list[ir.Value]) -> None:
        """Makes what has been computed lately matter: it is mixed into one of the slots."""
        b, slot = self._b, self._slot()
        mixed = b.load(self._out, slot)
        for value in scope[-6:]:
            mixed = b.compute("mul", mixed, b.const(31, ir.INT32))
            mixed = b.compute("add", mixed, b.cast(value, ir.INT32))
        b.store(self._out, slot, mixed)

    def _branch(self, scope: list[ir.Value], depth: int, loop: ir.Loop | None) -> list[ir.Value]:
        kinds = self._draw(st.lists(st.sampled_from(self._kinds), max_size=2))
        branch = self._b.if_(self._value(scope, ir.BOOL))
        for region in (branch.then, branch.otherwise):
            with region:
                inner = list(scope)
                self._statements(inner, depth - 1, loop)
                if self._b.reachable:
                    self._end_branch(inner, kinds, loop)
        return list(branch.results)

    def _end_branch(self, scope: list[ir.Value], kinds: list[ir.Scalar], loop: ir.Loop | None) -> None:
        choice = self._draw(st.integers(0, 9))
        if loop is not None and choice < 2:
            self._leave(loop, scope, self._b.break_ if choice else self._b.continue_)
        elif choice == 2:
            self._b.return_()
        else:
            self._b.yield_(*[self._value(scope, kind) for kind in kinds])

    def _leave(self, loop: ir.Loop, scope: list[ir.Value], how: Any) -> None:
        count, *carried = loop.params
        following = self._b.compute("add", count, self._b.const(1, ir.INT32))
        how(loop, following, *[self._value(scope, value.type) for value in carried])  # type: ignore[arg-type]

    def _loop(self, scope: list[ir.Value], depth: int) -> list[ir.Value]:
        """A loop that counts to a small number, carries some values, and may end or start over sooner."""
        b = self._b
        kinds = self._draw(st.lists(st.sampled_from(self._kinds), max_size=2))
        limit = b.const(self._draw(st.integers(0, 5)), ir.INT32)
        loop = b.loop(b.const(0, ir.INT32), *[self._value(scope, kind) for kind in kinds])
        with loop.body:
            done = b.if_(b.compute("ge", loop.params[0], limit))
            with done.then:
                b.break_(loop, *loop.params)
            inner = [*scope, *loop.params]
            self._statements(inner, depth - 1, loop)
            if b.reachable:
                count, *carried = loop.params
                following = b.compute("add", count, b.const(1, ir.INT32))
                b.yield_(following, *[self._value(inner, value.type) for value in carried])  # type: ignore[arg-type]
        return list(loop.results)
