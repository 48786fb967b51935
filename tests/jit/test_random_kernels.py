"""Random programs of nested branches, loops, breaks, returns and calls, on integers: the device against Python."""

from __future__ import annotations

import linecache
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from oracle import check

import vkcompute as vc

N = 8
NAMES = ("a", "b", "c")
_FORMS = """({} + {}) | ({} - {}) | ({} * {} % 1009) | ({} // ({} & 15 ! 1)) | ({} % ({} ! 1)) | ({} ^ {}) | min({}, {})
    | ({} if {} > 0 else c) | ({} and {}) | ({} or {}) | helper(x, {}, {})"""
FORMS = [form.strip().replace("!", "|") for form in _FORMS.split(" | ")]


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> str:
    """An int32 of the variables and small constants."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([*NAMES, *NAMES, "i", "1", "3", "-2"]))
    one, other = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    return draw(st.sampled_from(FORMS)).format(one, other)


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """A comparison, or two."""
    one, other, third = (draw(expressions(1)) for _ in range(3))
    sign = draw(st.sampled_from(["<", ">=", "==", "!="]))
    form = draw(
        st.sampled_from(
            ["{} {} {}", "not {} {} {}", "{} {} {} < {}", "{} {} {} or a > {}", "{} {} {} and x[{} % 8] > 2"]
        )
    )
    return form.format(one, sign, other, third)


@st.composite
def blocks(draw: st.DrawFn, depth: int, loops: int, end: str) -> list[str]:
    """Lines of statements, at most three; `end` is how a return is written."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["set", "add", "swap", "if", "if", "for", "while", "return", "break", "continue"]))
        name, value, condition = draw(st.sampled_from(NAMES)), draw(expressions()), draw(conditions())
        if kind == "add":
            lines.append(f"{name} += {value}")
        elif kind == "swap":
            lines.append(f"a, b, {name} = b, {value}, a")
        elif kind == "if" and depth:
            lines += [f"if {condition}:", *indented(draw(blocks(depth - 1, loops, end)))]
            if draw(st.booleans()):
                lines += ["else:", *indented(draw(blocks(depth - 1, loops, end)))]
        elif kind == "for" and depth:
            steps = draw(st.sampled_from(["4", "a & 3", "0, 7, 3", "2, b % 4 - 3, -1", "c & 3, 9, (a & 3) + 1"]))
            variable = draw(st.sampled_from(["k", "j", name]))
            lines += [f"for {variable} in range({steps}):", *indented(draw(blocks(depth - 1, loops + 1, end)))]
        elif kind == "while" and depth and loops < 2:
            counter = f"n{loops}{len(lines)}{depth}"
            body = [f"{counter} += 1", *draw(blocks(depth - 1, loops + 1, end))]
            lines += [f"{counter} = 0", f"while ({condition}) and {counter} < 5:", *indented(body)]
        elif kind == "return" and draw(st.booleans()):
            return [*lines, end.format(value)]
        elif kind in ("break", "continue") and loops:
            return [*lines, kind]
        else:
            lines.append(f"{name} = {value}")
    return lines


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A kernel, and a function that it calls, which returns from anywhere."""
    inner = [line.replace("helper(x, ", "max(") for line in draw(blocks(2, 0, "return {}"))]
    return "\n".join(
        [
            "import vkcompute as vc",
            "def helper(x, a, b):",
            *indented(["i = c = a", *inner, "return a - b + c"]),
            "def kernel(x, out):",
            *indented(["i = vc.global_id(0)", "a, b, c = x[i], x[7 - i], 1"]),
            *indented(draw(blocks(3, 0, "return"))),
            *indented([f"out[i, {n}] = {name}" for n, name in enumerate(NAMES)]),
            "",
        ]
    )


@given(text=programs(), seed=st.integers(0, 1000))
def test_random_programs(gpu: vc.Runtime, text: str, seed: int) -> None:
    name = f"<random {hash(text)}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    scope: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), scope)
    x = np.random.default_rng(seed).integers(-20, 20, N).astype(np.int32)
    try:
        check(gpu, vc.kernel(scope["kernel"]), x, np.full((N, 3), -7, np.int32), local_size=(N, 1, 1))
    except OverflowError:  # Python's own ints, which are int32 on the device, have grown beyond that
        assume(False)
