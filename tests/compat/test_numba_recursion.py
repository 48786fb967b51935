"""Device functions that call themselves, compared with Python, which runs the same functions."""

from __future__ import annotations

import numpy as np
import pytest

from vkcompute.compat.numba import cuda, float32, int64
from vkcompute.compat.numba.errors import TypingError
from vkcompute.errors import KernelError

pytestmark = [
    pytest.mark.filterwarnings("ignore::vkcompute.compat.numba.errors.NumbaPerformanceWarning"),
    pytest.mark.usefixtures("float64_device"),
]


def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def hanoi(n, source, target, moves):
    if n == 0:
        return
    spare = 3 - source - target
    hanoi(n - 1, source, spare, moves)
    moves[moves[0] + 1] = 10 * source + target
    moves[0] += 1
    hanoi(n - 1, spare, target, moves)


def quicksort(values, low, high):
    if low >= high:
        return
    pivot, i = values[high], low
    for j in range(low, high):
        if values[j] < pivot:
            values[i], values[j] = values[j], values[i]
            i += 1
    values[i], values[high] = values[high], values[i]
    quicksort(values, low, i - 1)
    quicksort(values, i + 1, high)


def bezout(a, b):
    if b == 0:
        return a, 1, 0
    divisor, x, y = bezout(b, a % b)
    return divisor, y, x - (a // b) * y


def queens(n, row, columns, left, right):
    if row == n:
        return 1
    count = 0
    for column in range(n):
        bit = 1 << column
        if columns & bit or left & bit or right & bit:
            continue
        count += queens(n, row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1)
    return count


def partitions(n, largest):
    """Counts by a while loop with a break, and a loop's else."""
    if n == 0:
        return 1
    total, part = 0, largest
    while part > 0:
        if part > n:
            part -= 1
            continue
        total += partitions(n - part, part)
        part -= 1
        if total > 10_000:
            break
    else:
        total += 0
    return total


def depth_of(tree, node):
    return 0 if node < 0 else 1 + max(depth_of(tree, tree[node, 0]), depth_of(tree, tree[node, 1]))


def holds(tree, keys, node, key):
    return node >= 0 and (
        keys[node] == key or holds(tree, keys, tree[node, 0], key) or holds(tree, keys, tree[node, 1], key)
    )


def noted(notes, n):
    """Operands are evaluated from the left: an element is read before a call changes it."""
    if n == 0:
        notes[0] += 1
        return notes[0]
    notes[1] += noted(notes, n - 1) * notes[0] + noted(notes, n - 1)
    return notes[0] - noted(notes, 0) + notes[1]


def stepped(n):
    total = 0
    for k in range(n, 0, -2):
        if k == 3:
            break
        total += stepped(k - 2) + k
    else:
        total += 100
    return total


def power(base, exponent, one=1.0):
    if exponent == 0:
        return one
    half = power(base, exponent=exponent // 2)
    return half * half * (base if exponent % 2 else one)


def widened(n):
    """Returns an int at its end, and a float above it."""
    if n == 0:
        return 1
    return widened(n - 1) * 0.5


def descended(n):
    """Has a loop that only its return ends, and one that its break ends."""
    while True:
        if n <= 0:
            return 1
        while True:
            n -= 1 + descended(n - 3) % 2
            if n % 3 != 1:
                break
        if n % 2 == 0:
            return n + descended(n - 1)


def renamed(n):
    """Reads a variable before an argument of the call assigns to it."""
    return n + n * renamed(n := n - 1) + n if n > 0 else 1


def is_even(n):
    return n == 0 or (n != 1 and not is_even(n - 1))


def spiral(z, n):
    return z if n == 0 else spiral(z * z - 0.5j, n - 1) + z


def larger(a, b):
    return a if a > b else b


def best(weights, values, room, n):
    """Solves the knapsack problem, with another function."""
    if n == 0:
        return 0
    without = best(weights, values, room, n - 1)
    if weights[n - 1] > room:
        return without
    return larger(without, values[n - 1] + best(weights, values, room - weights[n - 1], n - 1))


TREE = np.array([[1, 2], [3, -1], [4, 5], [-1, -1], [-1, 6], [-1, -1], [-1, -1]])
KEYS = np.array([5, 2, 9, 1, 7, 11, 8])


def device(function):
    """The function as Numba's, which finds itself by its name among its globals."""
    compiled = cuda.jit(device=True)(function)
    names = {**function.__globals__, "larger": cuda.jit(device=True)(larger), function.__name__: compiled}
    made = type(function)(function.__code__, names, function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    names[function.__name__] = cuda.jit(device=True)(made)
    return names[function.__name__]


def values_on_device(function, arguments, out):
    """The values of the function for rows of arguments, one a thread."""
    called, n = device(function), arguments.shape[1]
    if n == 1:

        @cuda.jit
        def kernel(rows, out):
            k = cuda.grid(1)
            if k < out.size:
                out[k] = called(rows[k, 0])

    else:

        @cuda.jit
        def kernel(rows, out):
            k = cuda.grid(1)
            if k < out.size:
                out[k] = called(rows[k, 0], rows[k, 1])

    kernel[2, 32](arguments, out)
    return out


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (fibonacci, [[n] for n in range(16)]),
        (ackermann, [[m, n] for m in range(3) for n in range(5)]),
        (partitions, [[n, n] for n in range(12)]),
        (stepped, [[n] for n in range(9)]),
        (descended, [[n] for n in range(15)]),
        (renamed, [[n] for n in range(7)]),
        (is_even, [[n] for n in range(20)]),
        (widened, [[n] for n in range(10)]),
        (power, [[b, n] for b in (2, 3) for n in range(9)]),
    ],
)
def test_a_function_of_numbers_calls_itself(function, arguments):
    expected = np.array([function(*row) for row in arguments])
    results = values_on_device(function, np.array(arguments), np.zeros_like(expected))
    assert results.tolist() == expected.tolist()


def test_a_sort_calls_itself_for_both_parts_of_its_array():
    sort = device(quicksort)

    @cuda.jit
    def kernel(rows):
        k = cuda.grid(1)
        if k < rows.shape[0]:
            sort(rows[k], 0, rows.shape[1] - 1)

    rows = np.random.default_rng(0).integers(0, 50, (20, 37))
    expected = np.sort(rows)
    kernel[1, 32](rows)
    assert np.array_equal(rows, expected)


def test_calls_without_values_are_made_in_order():
    move = device(hanoi)

    @cuda.jit
    def kernel(moves):
        move(6, 0, 2, moves)

    moves, expected = np.zeros(64, np.int64), np.zeros(64, np.int64)
    kernel[1, 1](moves)
    hanoi(6, 0, 2, expected)
    assert moves.tolist() == expected.tolist()


def test_a_function_returns_a_tuple_of_its_own_value():
    euclid = device(bezout)

    @cuda.jit
    def kernel(pairs, out):
        k = cuda.grid(1)
        if k < out.shape[0]:
            out[k, 0], out[k, 1], out[k, 2] = euclid(pairs[k, 0], pairs[k, 1])

    pairs = np.random.default_rng(1).integers(1, 10_000, (30, 2))
    out = np.zeros((30, 3), np.int64)
    kernel[1, 32](pairs, out)
    assert out.tolist() == [[*bezout(int(a), int(b))] for a, b in pairs]


def test_a_call_in_a_loop_keeps_the_variables_of_the_loop():
    n_queens = device(queens)

    @cuda.jit
    def kernel(out):
        k = cuda.grid(1)
        out[k] = n_queens(k, 0, 0, 0, 0)

    out = np.zeros(7, np.int64)
    kernel[1, 7](out)
    assert out.tolist() == [queens(n, 0, 0, 0, 0) for n in range(7)] == [1, 1, 0, 0, 2, 10, 4]


def test_calls_in_and_or_and_conditional_expressions_are_made_where_python_makes_them():
    depth, search = device(depth_of), device(holds)

    @cuda.jit
    def kernel(tree, keys, out):
        k = cuda.grid(1)
        out[k] = 10 * depth(tree, k % 7) + search(tree, keys, 0, k)

    out = np.zeros(13, np.int64)
    kernel[1, 13](TREE, KEYS, out)
    assert out.tolist() == [10 * depth_of(TREE, k % 7) + holds(TREE, KEYS, 0, k) for k in range(13)]


@pytest.mark.parametrize("n", range(4))
def test_operands_are_evaluated_from_the_left(n):
    note = device(noted)

    @cuda.jit
    def kernel(notes):
        notes[2] = note(notes, n)

    notes, expected = np.array([3, 0, 0]), np.array([3, 0, 0])
    kernel[1, 1](notes)
    expected[2] = noted(expected, n)
    assert notes.tolist() == expected.tolist()


def test_a_field_of_a_record_is_read_before_a_call_changes_it():
    @cuda.jit(device=True)
    def counted(record, n):
        if n == 0:
            return 0
        record.calls += 1
        return record.calls * 10 + counted(record, n - 1) - record.calls

    @cuda.jit
    def kernel(records, out):
        k = cuda.grid(1)
        out[k] = counted(records[k], k)

    out = np.zeros(6, np.int64)
    kernel[1, 6](np.zeros(6, [("calls", np.int32)]), out)
    assert out.tolist() == [10 * sum(range(n + 1)) - n * n for n in range(6)]


def test_complex_numbers_are_kept_on_the_stack():
    turn = device(spiral)

    @cuda.jit
    def kernel(z, out):
        k = cuda.grid(1)
        out[k] = turn(z[k], k)

    z, out = np.linspace(0.1, 0.6, 6) * (1 - 0.3j), np.zeros(6, complex)
    kernel[1, 6](z, out)
    assert np.allclose(out, [spiral(z[k], k) for k in range(6)], rtol=1e-14)


def test_a_function_calls_itself_and_others():
    solve = device(best)
    weights, values = np.array([3, 4, 5, 9, 4, 2]), np.array([3, 4, 4, 10, 4, 3])

    @cuda.jit
    def kernel(weights, values, out):
        k = cuda.grid(1)
        out[k] = solve(weights, values, k, weights.size)

    out = np.zeros(20, np.int64)
    kernel[1, 20](weights, values, out)
    assert out.tolist() == [best(weights, values, k, 6) for k in range(20)]


def test_a_signature_converts_the_arguments_and_the_value_of_every_call():
    @cuda.jit("float32(float32, int64)", device=True)
    def thirds(x, n):
        if n == 0:
            return x
        return thirds(x / 3.0, n - 1) + 0.1

    def expected(x, n):
        return np.float32(x) if n == 0 else np.float32(np.float64(expected(np.float64(np.float32(x)) / 3, n - 1)) + 0.1)

    @cuda.jit
    def kernel(out):
        k = cuda.grid(1)
        out[k] = thirds(1.0, k)

    out = np.zeros(9)
    kernel[1, 9](out)
    assert out.tolist() == [float(expected(1.0, k)) for k in range(9)]


def test_recursion_that_constants_end_has_no_stack():
    @cuda.jit(device=True)
    def raised(x, n):
        if n == 0:
            return 1
        return x * raised(x, n - 1)

    @cuda.jit
    def kernel(x, out):
        out[0] = raised(x, 3) + raised(x, 30)

    out = np.zeros(1, np.int64)
    kernel[1, 1](3, out)
    assert out[0] == 3**3 + np.int64(3**30)


def test_a_stack_that_is_full_raises_with_the_number_of_calls():
    @cuda.jit(device=True)
    def counted(n):
        if n == 0:
            return 0
        return 1 + counted(n - 1)

    @cuda.jit
    def kernel(n, out):
        out[0] = counted(n)

    out = np.zeros(1, np.int64)
    kernel[1, 1](127, out)
    assert out[0] == 127
    with pytest.raises(KernelError, match="counted calls itself more than 127 deep"):
        kernel[1, 1](128, out)


def refused(function):
    @cuda.jit
    def kernel(n, out):
        out[0] = function(n)

    with pytest.raises(TypingError) as error:
        kernel[1, 1](3, np.zeros(1))
    return str(error.value)


def test_recursion_without_an_end_is_refused():
    @cuda.jit(device=True)
    def runaway(x):
        return runaway(x)

    assert "cannot type infer runaway recursion" in refused(runaway)


def test_a_value_that_grows_with_each_call_is_refused():
    @cuda.jit(device=True)
    def nested(n):
        if n <= 0:
            return (n,)
        return (n, nested(n - 1))

    assert "Return type of recursive function does not converge" in refused(nested)


def test_mutual_recursion_is_refused_as_by_numba():
    @cuda.jit(device=True)
    def one(n):
        return two(n - 1) if n > 0 else 0

    @cuda.jit(device=True)
    def two(n):
        return one(n - 1) if n > 0 else 1

    assert "only directly: write a loop" in refused(one)


def test_a_function_defined_in_a_kernel_does_not_call_itself():
    @cuda.jit
    def kernel(n, out):
        def climbed(n):
            return 0 if n <= 0 else 1 + climbed(n - 1)

        out[0] = climbed(n)

    with pytest.raises(TypingError, match=r"climbed calls itself .* defined outside of the kernel"):
        kernel[1, 1](3, np.zeros(1))


def test_a_local_array_in_a_function_that_calls_itself_is_refused():
    @cuda.jit(device=True)
    def stored(n):
        kept = cuda.local.array(4, int64)
        kept[0] = n
        below = stored(n - 1) if n > 0 else 0
        return below + kept[0]

    assert "cuda.local.array is not for functions that call themselves" in refused(stored)


def test_a_slice_as_an_argument_of_its_own_call_is_refused():
    @cuda.jit(device=True)
    def total(values):
        return values[0] + total(values[1:]) if values.size > 0 else 0

    @cuda.jit
    def kernel(values, out):
        out[0] = total(values)

    with pytest.raises(TypingError, match=r"the array values .* on one path and the array values"):
        kernel[1, 1](np.arange(5), np.zeros(1))


def test_a_step_that_is_no_constant_is_refused():
    @cuda.jit(device=True)
    def summed(n):
        total = float32(n)
        for k in range(0, n, n):
            total += summed(k)
        return total

    assert "whose step is no constant" in refused(summed)
