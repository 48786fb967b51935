// IEEE 754 binary16 in words of 32 bits, two to a word, for devices without a 16-bit type. Rounding is to nearest, ties
// to even, on every device: what packHalf2x16 rounds to, and whether it keeps subnormals, is left to the driver.
#pragma once

// The values of the halves in the low 16 bits; exact. Computed in integers where a driver may flush a subnormal half.
vec4 half_to_float(const uvec4 h) {
    uvec4 magnitude = h & 0x7fffu;
    vec4 subnormal = vec4(magnitude) * 5.9604644775390625e-8;  // 2^-24; at most 1023 * 2^-24, a normal float
    uvec4 rebias = mix(uvec4(112u << 23), uvec4(224u << 23), greaterThanEqual(magnitude, uvec4(0x7c00u)));
    uvec4 normal = (magnitude << 13) + rebias;
    uvec4 bits = mix(normal, floatBitsToUint(subnormal), lessThan(magnitude, uvec4(0x0400u)));
    return uintBitsToFloat(bits | (h & 0x8000u) << 16);
}

// The halves nearest to `value`, in the low 16 bits; above 65519.99 is infinity, a NaN stays a NaN.
uvec4 float_to_half(const vec4 value) {
    uvec4 bits = floatBitsToUint(value);
    uvec4 magnitude = bits & 0x7fffffffu;
    uvec4 exponent = magnitude >> 23;
    bvec4 is_normal = greaterThanEqual(exponent, uvec4(113u));  // 2^-14 and above

    // A normal half drops 13 bits of the significand. A subnormal one counts in steps of 2^-24: the significand of 24
    // bits stands for significand * 2^(exponent - 150), so it drops 126 - exponent bits; from 25 on nothing remains.
    uvec4 significand = mix((magnitude & 0x7fffffu) | 0x800000u, magnitude - (112u << 23), is_normal);
    uvec4 dropped = mix(min(126u - exponent, 25u), uvec4(13u), is_normal);
    uvec4 is_odd = (significand >> dropped) & 1u;
    uvec4 rounded = (significand + (uvec4(1u) << (dropped - 1u)) - 1u + is_odd) >> dropped;

    rounded = mix(rounded, uvec4(0x7c00u), greaterThanEqual(magnitude, uvec4(0x477ff000u)));  // 65520
    rounded = mix(rounded, uvec4(0x7e00u), greaterThan(magnitude, uvec4(0x7f800000u)));
    return rounded | (bits >> 16 & 0x8000u);
}

// The product of two halves has at most 22 significant bits and lies above 2^-49, so the float product is exact and
// only the step back rounds.
uvec4 multiply_f16(const uvec4 a, const uvec4 b) {
    uvec4 low = float_to_half(half_to_float(a & 0xffffu) * half_to_float(b & 0xffffu));
    uvec4 high = float_to_half(half_to_float(a >> 16) * half_to_float(b >> 16));
    return low | high << 16;
}
