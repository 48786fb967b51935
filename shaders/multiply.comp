// c = a * b, elementwise. Compiled once per type of the elements, by the define ELEMENT: 1 for bool, the bits of an
// integer, 100 plus the bits of a float. Signed and unsigned integers have the same products, which wrap.
//
// An invocation multiplies the elements in 16 bytes, or with the define TEXELS in 32: it loads texels, and stores words
// of TEXELS bits, 64 or 32. On lavapipe that takes a third of the time.
#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_samplerless_texture_functions : enable

layout(local_size_x = 64, local_size_x_id = 0) in;
layout(constant_id = 1) const bool B_IS_SCALAR = false;  // then b is not read: every element is `scalar`

#ifdef TEXELS
layout(set = 0, binding = 0) uniform utextureBuffer a;
layout(set = 0, binding = 1) uniform utextureBuffer b;
#if TEXELS == 64
layout(std430, set = 0, binding = 2) writeonly buffer C { u64vec4 c[]; };
#else
layout(std430, set = 0, binding = 2) writeonly buffer C { uvec4 c[]; };
#endif
#else
layout(std430, set = 0, binding = 0) readonly buffer A { uvec4 a[]; };
layout(std430, set = 0, binding = 1) readonly buffer B { uvec4 b[]; };
layout(std430, set = 0, binding = 2) writeonly buffer C { uvec4 c[]; };
#endif

layout(push_constant) uniform Parameters {
    uint n_items;  // invocations with work
    uint scalar_0, scalar_1, scalar_2, scalar_3;  // the scalar element, repeated to 16 bytes
};

// The products of the elements in a word of 32 bits.
#if ELEMENT == 1
uint truth(uint x) { return ((x & 0x7f7f7f7fu) + 0x7f7f7f7fu | x) >> 7 & 0x01010101u; }  // 1 in each byte that is not 0
uint product(uint x, uint y) { return truth(x) & truth(y); }
#elif ELEMENT == 8
uint product(uint x, uint y) { return pack32(unpack8(x) * unpack8(y)); }
#elif ELEMENT == 16
uint product(uint x, uint y) { return pack32(unpack16(x) * unpack16(y)); }
#elif ELEMENT == 32
uint product(uint x, uint y) { return x * y; }
#elif ELEMENT == 116
uint product(uint x, uint y) { return packFloat2x16(unpackFloat2x16(x) * unpackFloat2x16(y)); }
#elif ELEMENT == 132
uint product(uint x, uint y) { return floatBitsToUint(uintBitsToFloat(x) * uintBitsToFloat(y)); }
#endif

// The products of the elements in two words.
#if ELEMENT == 64
uvec2 products(uvec2 x, uvec2 y) { return unpackUint2x32(packUint2x32(x) * packUint2x32(y)); }
#elif ELEMENT == 164
uvec2 products(uvec2 x, uvec2 y) { return unpackDouble2x32(packDouble2x32(x) * packDouble2x32(y)); }
#else
uvec2 products(uvec2 x, uvec2 y) { return uvec2(product(x.x, y.x), product(x.y, y.y)); }
#endif

uvec4 products(uvec4 x, uvec4 y) { return uvec4(products(x.xy, y.xy), products(x.zw, y.zw)); }

void main() {
    // A grid above the device's maximum along x wraps to y.
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    if (i >= n_items) return;
    uvec4 scalar = uvec4(scalar_0, scalar_1, scalar_2, scalar_3);
#ifdef TEXELS
    int at = int(2u * i);
    uvec4 low = products(texelFetch(a, at), B_IS_SCALAR ? scalar : texelFetch(b, at));
    uvec4 high = products(texelFetch(a, at + 1), B_IS_SCALAR ? scalar : texelFetch(b, at + 1));
#if TEXELS == 64
    c[i] = u64vec4(packUint2x32(low.xy), packUint2x32(low.zw), packUint2x32(high.xy), packUint2x32(high.zw));
#else
    c[2u * i] = low;
    c[2u * i + 1u] = high;
#endif
#else
    c[i] = products(a[i], B_IS_SCALAR ? scalar : b[i]);
#endif
}
