// c = a * b, elementwise, on 32-bit words: needs no 8-, 16- or 64-bit storage. The define MULTIPLY names the function
// that multiplies the elements in 16 bytes. With the define ELEMENT_ID it may be multiply_any, which selects the dtype
// by the specialization constant of that number.
//
// An invocation computes one uvec4, or with the define TEXEL two: two texel loads per input and one u64vec4 store. On
// lavapipe that is several times faster than storage-buffer loads and 32-bit stores.
#version 460
#ifdef TEXEL
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_samplerless_texture_functions : require
#endif

#include "half.glsl"
#include "packed_integers.glsl"
#include "soft_double.glsl"

layout(local_size_x = 64, local_size_x_id = 0) in;
layout(constant_id = 1) const bool B_IS_SCALAR = false;  // then b is not read: every element is `scalar`

#ifdef TEXEL
layout(set = 0, binding = 0) uniform utextureBuffer a;
layout(set = 0, binding = 1) uniform utextureBuffer b;
layout(std430, set = 0, binding = 2) writeonly buffer C { u64vec4 c[]; };
#else
layout(std430, set = 0, binding = 0) readonly buffer A { uvec4 a[]; };
layout(std430, set = 0, binding = 1) readonly buffer B { uvec4 b[]; };
layout(std430, set = 0, binding = 2) writeonly buffer C { uvec4 c[]; };
#endif

layout(push_constant) uniform Parameters {
    uint n_items;  // invocations with work
    uint scalar_0, scalar_1, scalar_2, scalar_3;  // the scalar element, repeated to 16 bytes
};

uvec4 multiply_f32(const uvec4 x, const uvec4 y) {
    return floatBitsToUint(uintBitsToFloat(x) * uintBitsToFloat(y));
}

#ifdef HAS_DOUBLE
uvec4 multiply_f64(const uvec4 x, const uvec4 y) {
    uvec2 low = unpackDouble2x32(packDouble2x32(x.xy) * packDouble2x32(y.xy));
    uvec2 high = unpackDouble2x32(packDouble2x32(x.zw) * packDouble2x32(y.zw));
    return uvec4(low, high);
}
#else
#define multiply_f64 multiply_f64_soft
#endif

#ifdef ELEMENT_ID
// The dtype: 1 for bool, the bits of an integer, 100 plus the bits of a float.
layout(constant_id = ELEMENT_ID) const uint ELEMENT = 32;

uvec4 multiply_any(const uvec4 x, const uvec4 y) {
    if (ELEMENT == 1u) return multiply_bool(x, y);
    if (ELEMENT == 8u) return multiply_u8(x, y);
    if (ELEMENT == 16u) return multiply_u16(x, y);
    if (ELEMENT == 64u) return multiply_u64(x, y);
    if (ELEMENT == 116u) return multiply_f16(x, y);
    if (ELEMENT == 132u) return multiply_f32(x, y);
    if (ELEMENT == 164u) return multiply_f64(x, y);
    return multiply_u32(x, y);
}
#endif

void main() {
    // A grid above the device's maximum along x wraps to y.
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    if (i >= n_items) return;
    uvec4 scalar = uvec4(scalar_0, scalar_1, scalar_2, scalar_3);
#ifdef TEXEL
    int at = int(2u * i);
    uvec4 low = MULTIPLY(texelFetch(a, at), B_IS_SCALAR ? scalar : texelFetch(b, at));
    uvec4 high = MULTIPLY(texelFetch(a, at + 1), B_IS_SCALAR ? scalar : texelFetch(b, at + 1));
    c[i] = u64vec4(packUint2x32(low.xy), packUint2x32(low.zw), packUint2x32(high.xy), packUint2x32(high.zw));
#else
    c[i] = MULTIPLY(a[i], B_IS_SCALAR ? scalar : b[i]);
#endif
}
