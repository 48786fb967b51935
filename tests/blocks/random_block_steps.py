"""Steps of the random block programs that address memory, loop and call in Triton's less common ways.

The results of a step do not depend on the order of its elements: atomic operations that return numbers have one address
per element, and floats are integers that `Writer.new` limits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random_block_programs import Writer

HELPERS = """@triton.jit
def composed(a, b, c, d):
    return a * c, b * c + d

@triton.jit
def repeated(a, b, K: tl.constexpr):
    if K == 0:
        return a
    else:
        return repeated(tl.maximum(a, b), a, K - 1)

@triton.jit(noinline=True)
def apart(a, b):
    return a * 3 + b

@triton.aggregate
class Two:
    one: tl.tensor
    other: tl.tensor

    def __init__(self, one, other):
        self.one = one
        self.other = other

    @triton.jit
    def turned(self):
        return Two(self.other, self.one)

"""
WHOLE = "int32", "uint32", "int64", "uint64"
SLOT = 4096
_NARROW = "int8", "uint8", "float16", "bfloat16"


def _tile(w: Writer, shape: tuple[int, ...], stride: int) -> tuple[str, str, str]:
    """Returns offsets of rows, of columns, and their sum, of a tile whose first elements may be negative."""
    rows = f"(tl.arange(0, {shape[0]})[:, None] - {w.random.choice([0, 1, 3])})"
    columns = f"(tl.arange(0, {shape[1]})[None, :] - {w.random.choice([0, 2])})"
    return rows, columns, f"{rows} * {stride} + {columns}"


def _scratch(w: Writer, dtype: str, shape: tuple[int, ...]) -> str:
    """Returns pointers to the memory of a program."""
    return f"scratch_{dtype} + pid * {SLOT} + {w.offsets(shape)}"


def partly(w: Writer) -> None:
    """Loads a tile that is partly outside of its limits, where the elements of another block, or 2, are."""
    other, shape, dtype = w.pick(lambda shape, dtype: len(shape) == 2 and dtype != "int1")
    if len(shape) != 2:
        return
    rows, columns, at = _tile(w, shape, w.random.choice([7, 16]))
    mask = (
        f"({rows} >= 0) & ({columns} >= 0) & ({rows} < n % 9) & ({columns} < {w.random.choice(['5', 'n', 'pid + 3'])})"
    )
    w.new(f"tl.load(given_{dtype} + {at}, mask={mask}, other={w.random.choice([other, '2'])})", shape, dtype)


def block_pointer(w: Writer) -> None:
    """Loads and stores a tile by block pointers with checked boundaries."""
    name, shape, dtype = w.pick(lambda shape, dtype: len(shape) == 2 and dtype != "int1")
    if len(shape) != 2:
        return
    order = w.random.choice([(1, 0), (0, 1)])
    strides, start = w.random.choice([(9, 1), (1, 9)]), (w.random.randint(-2, 3), w.random.randint(-2, 3))
    lengths = w.random.choice(["(n % 9 + 1, 5)", "(3, n % 6 + 1)", "(6, 7)"])
    rest = f"{lengths}, {strides}, {start}, {shape}, {order})"
    pointer = f"p{w.n_names}"
    w.line(f"{pointer} = tl.make_block_ptr(given_{dtype} + {w.random.choice([0, 5])}, {rest}")
    if w.random.random() < 0.5:
        w.line(f"{pointer} = tl.advance({pointer}, ({w.random.randint(-1, 2)}, {w.random.randint(-1, 2)}))")
    w.new(f"tl.load({pointer}, boundary_check=(0, 1), padding_option='zero')", shape, dtype)
    w.line(f"{pointer} = tl.make_block_ptr(scratch_{dtype} + pid * {SLOT}, {rest}")
    w.line(f"tl.store({pointer}, {name}, boundary_check=(0, 1))")
    w.new(f"tl.load({_scratch(w, dtype, shape)})", shape, dtype)


def descriptor(w: Writer) -> None:
    """Loads, stores or adds a tile by a tensor descriptor; its starts may be outside."""
    dtype = w.random.choice([kind for kind in w.dtypes if kind != "float64"])
    shape = (1 << w.random.randint(0, 3), 16)
    name, at = w.alike(shape, dtype), f"[{w.random.randint(-3, 4)}, {w.random.choice([0, 16, 8, -4])}]"
    lengths = w.random.choice(["[n % 9 + 1, 32]", "[5, n % 20 + 13]", "[4, 24]"])
    rest = f"{lengths}, [32, 1], {list(shape)})"
    w.line(f"d = tl.make_tensor_descriptor(given_{dtype}, {rest}")
    w.new(f"d.load({at})", shape, dtype)
    w.line(f"d = tl.make_tensor_descriptor(scratch_{dtype} + pid * {SLOT}, {rest}")
    w.line(f"d.store({at}, {name})")
    if dtype in ("int32", "uint32"):
        w.line(f"d.atomic_{w.random.choice(['add', 'max', 'xor'])}({at}, {name})")
    w.new(f"tl.load({_scratch(w, dtype, shape)})", shape, dtype)


def old_numbers(w: Writer) -> None:
    """Updates one address per element, perhaps masked, and takes the old numbers."""
    name, shape, dtype = w.pick(lambda _, dtype: dtype in WHOLE)
    if dtype not in WHOLE:
        return
    kind = w.random.choice(["add", "max", "min", "xor", "or", "and", "xchg", "cas"])
    at, mask = _scratch(w, dtype, shape), f"({w.alike(shape, dtype)} & 3) != 1"
    if kind == "cas":
        w.new(f"tl.atomic_cas({at}, {w.alike(shape, dtype)}, {name})", shape, dtype)
    else:
        w.new(f"tl.where({mask}, tl.atomic_{kind}({at}, {name}, mask={mask}), 1)", shape, dtype)
    w.new(f"tl.load({_scratch(w, dtype, shape)})", shape, dtype)


def chosen_pointers(w: Writer) -> None:
    """Loads from two parts of an array by a condition on elements, or from one of two arrays by one on a number."""
    name, shape, dtype = w.pick(lambda _, dtype: dtype != "int1")
    if w.random.random() < 0.5:
        pointer = f"given_{dtype} + {w.offsets(shape)}"
        w.new(f"tl.load(tl.where({name} > 2, {pointer} + 3, {pointer} + 90))", shape, dtype)
        return
    condition = w.random.choice(["n > 40", "pid == 0"])
    w.line(f"chosen = given_{dtype} if {condition} else scratch_{dtype} + pid * {SLOT}")
    w.new(f"tl.load(chosen + {w.offsets(shape)})", shape, dtype)


def compose(w: Writer) -> None:
    """Combines pairs by a function that is not commutative: scans them, or reduces them along one or all axes."""
    name, shape, dtype = w.pick(lambda _, dtype: dtype in WHOLE)
    if dtype not in WHOLE:
        return
    pair, axis = f"({name}, {w.alike(shape, dtype)})", w.random.randrange(len(shape))
    kept = tuple(1 if at == axis else n for at, n in enumerate(shape))
    if w.random.random() < 0.5:
        reverse = w.random.choice([False, True])
        w.line(f"one, other = tl.associative_scan({pair}, {axis}, composed, reverse={reverse})")
    elif w.random.random() < 0.5:
        w.line(f"one, other = tl.reduce({pair}, {axis}, composed, keep_dims=True)")
        w.line(f"one = tl.broadcast_to(one, {shape})")
        w.line(f"other = tl.broadcast_to(other + tl.zeros({kept}, tl.{dtype}), {shape})")
    else:
        flat = f"tuple([block.reshape({math.prod(shape)}) for block in {pair}])"
        w.line(f"one, other = tl.reduce({flat}, 0, composed)")
        w.line(f"one, other = tl.zeros({shape}, tl.{dtype}) + one, tl.zeros({shape}, tl.{dtype}) + other")
    w.new("one", shape, dtype)
    w.new("other", shape, dtype)


def of_all(w: Writer) -> None:
    """Reduces all axes, or takes the index beside the extreme."""
    name, shape, dtype = w.pick(lambda _, dtype: dtype in ("int32", "uint32", "float32"))
    if dtype == "int1" or dtype in _NARROW:
        return
    kind, axis = w.random.choice(["sum", "max", "min", "both"]), w.random.randrange(len(shape))
    if kind != "both":
        w.new(f"tl.zeros({shape}, tl.{dtype}) + tl.{kind}({name})", shape, dtype)
        return
    w.line(f"one, other = tl.{w.random.choice(['max', 'min'])}({name}, {axis}, return_indices=True, keep_dims=True)")
    w.new(f"tl.broadcast_to(other, {shape})", shape, "int32")
    w.new(f"tl.broadcast_to(one, {shape})", shape, dtype)


def call(w: Writer) -> None:
    """Calls helpers: one that calls itself, one that is not inlined, and a method of an aggregate."""
    name, shape, dtype = w.pick(lambda _, dtype: dtype != "int1")
    other = w.alike(shape, dtype)
    kind = w.random.choice(["repeated", "apart", "turned"])
    if kind == "apart" and dtype in ("int32", "uint32", "int64", "uint64"):
        w.new(f"{name} + apart(n, pid).to(tl.{dtype})", shape, dtype)
    elif kind == "turned":
        w.line(f"two = Two({name}, {other}).turned()")
        w.new(f"two.{w.random.choice(['one', 'other'])}", shape, dtype)
    else:
        w.new(f"repeated({name}, {other}, {w.random.randint(0, 3)})", shape, dtype)


def outer(w: Writer) -> None:
    """Combines a row and a column."""
    a, b = (1 << w.random.randint(0, 4) for _ in range(2))
    dtype = w.random.choice(w.dtypes)
    one, other = w.alike((a,), dtype), w.alike((b,), dtype)
    text = w.random.choice(["tl.maximum({0}, {1})", "{0} + {1}", "tl.where({0} > {1}, {0}, {1})"])
    w.new(text.format(f"{one}[:, None]", f"tl.expand_dims({other}, 0)"), (a, b), dtype)


def gather_more(w: Writer) -> None:
    """Gathers more or fewer elements than there are along an axis."""
    name, shape, dtype = w.pick(lambda _, dtype: dtype != "int1")
    axis, n = w.random.randrange(len(shape)), 1 << w.random.randint(0, 5)
    wanted = tuple(n if at == axis else length for at, length in enumerate(shape))
    if math.prod(wanted) <= 256:
        w.new(f"tl.gather({name}, {w.alike(wanted, 'int32')} & {shape[axis] - 1}, {axis})", wanted, dtype)


def bits(w: Writer) -> None:
    """Reads bits as another dtype, or takes high halves of products."""
    name, shape, dtype = w.pick(lambda _, dtype: dtype in ("int32", "uint32"))
    if dtype not in ("int32", "uint32"):
        return
    name = name if dtype == "uint32" else f"{name}.to(tl.uint32, bitcast=True)"
    text = w.random.choice(["tl.umulhi({0}, {0} ^ 12345)", "({0} >> 3)", "(~{0})"]).format(name)
    w.new(f"{text}.to(tl.int32, bitcast=True)", shape, "int32")


def through_float8(w: Writer) -> None:
    """Rounds to 8 bits, and converts back."""
    name, shape, dtype = w.pick(lambda _, dtype: dtype in ("float32", "float16"))
    if dtype in ("float32", "float16") and not w.is_rough:
        kind = w.random.choice(["float8e5", "float8e4nv"])
        w.new(f"tl.clamp({name}, -200.0, 200.0).to(tl.{kind}).to(tl.{dtype})", shape, dtype)


def masked_histogram(w: Writer) -> None:
    """Counts the elements that a mask selects."""
    name, shape, _ = w.pick(lambda shape, dtype: dtype == "int32")
    flat = f"{name}.reshape({math.prod(shape)})"
    w.new(f"tl.histogram({flat} & 31, 32, mask=({flat} & {w.random.choice([1, 4])}) != 0)", (32,), "int32")


def sums(w: Writer) -> None:
    """Adds products in a loop, to sums that the loop carries."""
    m, k, n = (1 << w.random.randint(0, 5) for _ in range(3))
    dtype = w.random.choice([kind for kind in w.dtypes if kind in ("int32", "float32", "int8", "float16", "bfloat16")])
    wide = "int32" if dtype.startswith("int") else "float32"
    if w.depth > 1 or (w.is_rough and wide == "float32"):
        return
    w.n_names += 1
    total, passes = f"t{w.n_names}", w.random.choice(["range(n % 4)", "tl.range(0, n % 4, num_stages=2)"])
    w.line(f"{total} = tl.zeros(({m}, {n}), tl.{wide})")
    w.line(f"for i in {passes}:")
    limit = "tl.clamp({0}, -64.0, 64.0)" if wide == "float32" else "{0}"
    one = limit.format(f"tl.load(given_{dtype} + {w.offsets((m, k))} % 480 + i * 3)")
    other = limit.format(f"tl.load(given_{dtype} + {w.offsets((n, k))} % 480 + i * 5).trans()")
    w.line(f"    {total} = tl.dot({one}, {other}, {total})")
    if w.random.random() < 0.5:
        w.line(f"    {total} = tl.where({total} > 100, -{total}, {total})")
    w.new(total, (m, n), wide)


def swap(w: Writer) -> None:
    """Carries two blocks through a loop that swaps them, in other layouts."""
    name, shape, dtype = w.pick(lambda _, dtype: dtype != "int1")
    other = w.alike(shape, dtype)
    w.n_names += 1
    one, two = f"a{w.n_names}", f"b{w.n_names}"
    w.line(f"{one} = {name}")
    w.line(f"{two} = {other}")
    w.line(f"for i in range(n % {w.random.choice([3, 5])}):")
    turned = f"tl.flip({one}, {w.random.randrange(len(shape))})"
    if len(shape) == 2 and shape[0] == shape[1]:
        turned = f"{one}.trans()"
    w.line(f"    {one}, {two} = {two}, {turned}")
    w.new(one, shape, dtype)
    w.new(two, shape, dtype)


def until(w: Writer) -> None:
    """Loops while a condition on a reduction of the carried block holds, at most n % 5 times."""
    name, shape, dtype = w.pick(lambda _, dtype: dtype in ("int32", "uint32"))
    if dtype not in ("int32", "uint32") or w.depth > 2:
        return
    w.n_names += 1
    count, block = f"k{w.n_names}", f"u{w.n_names}"
    w.line(f"{count}, {block} = 0, {name}")
    condition = w.random.choice(["tl.sum({0}) % 3 != 0", "tl.max({0}.to(tl.int32)) > 9", "tl.xor_sum({0}) > 5"])
    if len(shape) > 1:
        condition = condition.replace("{0}", f"{{0}}.reshape({math.prod(shape)})")
    w.line(f"while ({condition.format(block)}) & ({count} < n % 5):")
    w.line(f"    {block} = {w.random.choice(['{0} + {1}', '({0} >> 1) ^ {1}']).format(block, name)}")
    w.line(f"    {count} += 1")
    w.new(block, shape, dtype)


MORE_STEPS: list[Any] = [
    partly, block_pointer, descriptor, old_numbers, chosen_pointers, compose, of_all, call, outer, gather_more, bits,
    through_float8, masked_histogram, sums, swap, until,
]  # fmt: skip
"""One function per kind of step, which takes the writer."""
