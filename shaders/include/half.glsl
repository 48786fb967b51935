// IEEE 754 binary16, two to a 32-bit word, for devices without a 16-bit type. Rounds to nearest, ties to even, on every
// device. With packHalf2x16, rounding and subnormals depend on the driver.
#pragma once

// Exact values of the halves in the low 16 bits. Avoids subnormal floats, which a driver may flush.
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

    // A normal half drops 13 bits of the significand. A subnormal half is a multiple of 2^-24: the 24-bit significand
    // means significand * 2^(exponent - 150), so it drops 126 - exponent bits. From 25 bits on, nothing remains.
    uvec4 significand = mix((magnitude & 0x7fffffu) | 0x800000u, magnitude - (112u << 23), is_normal);
    uvec4 dropped = mix(min(126u - exponent, 25u), uvec4(13u), is_normal);
    uvec4 is_odd = (significand >> dropped) & 1u;
    uvec4 rounded = (significand + (uvec4(1u) << (dropped - 1u)) - 1u + is_odd) >> dropped;

    rounded = mix(rounded, uvec4(0x7c00u), greaterThanEqual(magnitude, uvec4(0x477ff000u)));  // 65520
    rounded = mix(rounded, uvec4(0x7e00u), greaterThan(magnitude, uvec4(0x7f800000u)));
    return rounded | (bits >> 16 & 0x8000u);
}

// The product of two halves has at most 22 significant bits and is above 2^-49, so the float product is exact. Only the
// conversion to half rounds.
uvec4 multiply_f16(const uvec4 a, const uvec4 b) {
    uvec4 low = float_to_half(half_to_float(a & 0xffffu) * half_to_float(b & 0xffffu));
    uvec4 high = float_to_half(half_to_float(a >> 16) * half_to_float(b >> 16));
    return low | high << 16;
}
