// IEEE 754 binary64 in 32-bit words, for devices without a 64-bit type. An element is uvec2(low, high). Rounds to
// nearest, ties to even; subnormals, infinities and NaN follow the standard. Method: Hauser, SoftFloat.
#pragma once

const uint SOFT_DOUBLE_INFINITY = 0x7ff00000u;  // the high word
const uint SOFT_DOUBLE_NAN = 0x7ff80000u;

bool soft_double_is_nan(const uvec2 a) {
    uint high = a.y & 0x7fffffffu;
    return high > SOFT_DOUBLE_INFINITY || (high == SOFT_DOUBLE_INFINITY && a.x != 0u);
}

bool soft_double_is_zero(const uvec2 a) {
    return (a.y << 1 | a.x) == 0u;
}

// `v` shifted by 0 to 63 bits to the left.
uvec2 shift_left_64(const uvec2 v, const uint n_bits) {
    if (n_bits == 0u) return v;
    if (n_bits >= 32u) return uvec2(0u, v.x << (n_bits - 32u));
    return uvec2(v.x << n_bits, v.y << n_bits | v.x >> (32u - n_bits));
}

// `v` shifted by 1 to 63 bits to the right; bit 0 is the or of itself and all lost bits (sticky).
uvec2 shift_right_64_sticky(const uvec2 v, const uint n_bits) {
    if (n_bits == 32u) return uvec2(v.y | uint(v.x != 0u), 0u);
    if (n_bits > 32u) {
        uint lost = v.x | v.y << (64u - n_bits);
        return uvec2(v.y >> (n_bits - 32u) | uint(lost != 0u), 0u);
    }
    uint lost = v.x << (32u - n_bits);
    return uvec2(v.y << (32u - n_bits) | v.x >> n_bits | uint(lost != 0u), v.y >> n_bits);
}

// The significand of a finite nonzero number with its leading bit in bit 63, and its exponent, below 1 for a subnormal
// number.
uvec2 soft_double_significand(const uvec2 a, out int exponent) {
    exponent = int(a.y >> 20 & 0x7ffu);
    uvec2 fraction = uvec2(a.x, a.y & 0xfffffu);
    if (exponent != 0) return shift_left_64(uvec2(fraction.x, fraction.y | 0x100000u), 11u);
    int leading = fraction.y != 0u ? 32 + findMSB(fraction.y) : findMSB(fraction.x);
    exponent = leading - 51;  // bit 52 would be exponent 1
    return shift_left_64(fraction, uint(63 - leading));
}

// The number with a significand whose leading bit is bit 63, and any biased exponent, rounded once. Bit 0 of the
// significand is sticky.
uvec2 soft_double_round(const uint sign, const int exponent, const uvec2 significand) {
    if (exponent >= 0x7ff) return uvec2(0u, sign | SOFT_DOUBLE_INFINITY);
    // Keep 53 bits and two more for rounding; below the normal range fewer, and from 65 dropped bits on none.
    int n_dropped = exponent > 0 ? 11 : min(12 - exponent, 65);
    uvec2 kept = shift_right_64_sticky(significand, uint(n_dropped - 2));
    uint last = kept.x & 7u;  // the last kept bit, and the two after it
    uvec2 result = uvec2(kept.x >> 2 | kept.y << 30, kept.y >> 2);
    uint carry;
    result.x = uaddCarry(result.x, uint(last == 3u || last >= 6u), carry);
    result.y += carry;
    // The leading bit of a normal number adds 1 to the exponent field, and so does a carry from the fraction.
    result.y += uint(max(exponent - 1, 0)) << 20;
    return uvec2(result.x, result.y | sign);
}

uvec2 soft_double_multiply(const uvec2 a, const uvec2 b) {
    uint sign = (a.y ^ b.y) & 0x80000000u;
    bool either_zero = soft_double_is_zero(a) || soft_double_is_zero(b);
    if ((a.y & SOFT_DOUBLE_INFINITY) == SOFT_DOUBLE_INFINITY || (b.y & SOFT_DOUBLE_INFINITY) == SOFT_DOUBLE_INFINITY) {
        if (soft_double_is_nan(a) || soft_double_is_nan(b) || either_zero) return uvec2(0u, SOFT_DOUBLE_NAN);
        return uvec2(0u, sign | SOFT_DOUBLE_INFINITY);
    }
    if (either_zero) return uvec2(0u, sign);

    int exponent_a, exponent_b;
    uvec2 x = soft_double_significand(a, exponent_a);
    uvec2 y = soft_double_significand(b, exponent_b);
    // 64 x 64 bits: word3 word2 word1 word0; word0 only contributes to the sticky bit.
    uint word0, word1, word2, word3, low, high, carry;
    umulExtended(x.x, y.x, word1, word0);
    umulExtended(x.y, y.y, word3, word2);
    umulExtended(x.x, y.y, high, low);
    word1 = uaddCarry(word1, low, carry);
    high += carry;  // a high word of a product is at most 2^32 - 2
    word2 = uaddCarry(word2, high, carry);
    word3 += carry;
    umulExtended(x.y, y.x, high, low);
    word1 = uaddCarry(word1, low, carry);
    high += carry;
    word2 = uaddCarry(word2, high, carry);
    word3 += carry;

    // The product of two numbers in [1, 2) is in [1, 4).
    int exponent = exponent_a + exponent_b - 1023 + 1;
    if ((word3 & 0x80000000u) == 0u) {
        word3 = word3 << 1 | word2 >> 31;
        word2 = word2 << 1 | word1 >> 31;
        word1 <<= 1;
        exponent -= 1;
    }
    return soft_double_round(sign, exponent, uvec2(word2 | uint((word1 | word0) != 0u), word3));
}

uvec4 multiply_f64_soft(const uvec4 a, const uvec4 b) {
    return uvec4(soft_double_multiply(a.xy, b.xy), soft_double_multiply(a.zw, b.zw));
}
