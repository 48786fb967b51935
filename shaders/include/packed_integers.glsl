// Integer products in 32-bit words, for devices without 8-, 16- and 64-bit types. Each returns the low half of the
// product, which is the same for signed and unsigned elements. Elements of 8 or 16 bits are numbered from the low end.
#pragma once

uvec4 multiply_u8(const uvec4 a, const uvec4 b) {
    // The second factor is not shifted, so each product is in place; higher bits are masked.
    uvec4 byte0 = (a * (b & 0xffu)) & 0xffu;
    uvec4 byte1 = (((a >> 8) & 0xffu) * (b & 0xff00u)) & 0xff00u;
    uvec4 byte2 = (((a >> 16) & 0xffu) * (b & 0xff0000u)) & 0xff0000u;
    uvec4 byte3 = (a >> 24) * (b & 0xff000000u);
    return byte0 | byte1 | byte2 | byte3;
}

uvec4 multiply_u16(const uvec4 a, const uvec4 b) {
    return ((a * b) & 0xffffu) | ((a >> 16) * (b & 0xffff0000u));
}

uvec4 multiply_u32(const uvec4 a, const uvec4 b) {
    return a * b;
}

// Two elements of 64 bits, each as (low, high).
uvec4 multiply_u64(const uvec4 a, const uvec4 b) {
    uvec2 high, low;
    umulExtended(a.xz, b.xz, high, low);
    high += a.xz * b.yw + a.yw * b.xz;
    return uvec4(low.x, high.x, low.y, high.y);
}

// 1 in each byte that is not 0.
uvec4 truth_of_bytes(const uvec4 a) {
    return (((a & 0x7f7f7f7fu) + 0x7f7f7f7fu) | a) >> 7 & 0x01010101u;
}

// numpy's bool * bool is logical and; any byte but 0 is true.
uvec4 multiply_bool(const uvec4 a, const uvec4 b) {
    return truth_of_bytes(a) & truth_of_bytes(b);
}
