// c = a * b, element by element, on words of 32 bits: no storage of 8, 16 or 64 bits is needed. One invocation does one
// uvec4, which is 16 bytes of whatever the elements are; the define MULTIPLY names the function for them.
#version 460

#include "half.glsl"
#include "packed_integers.glsl"
#include "soft_double.glsl"

layout(local_size_x = 64, local_size_x_id = 0) in;

layout(std430, set = 0, binding = 0) readonly buffer A { uvec4 a[]; };
layout(std430, set = 0, binding = 1) readonly buffer B { uvec4 b[]; };
layout(std430, set = 0, binding = 2) writeonly buffer C { uvec4 c[]; };

layout(push_constant) uniform Parameters {
    uint n_vec4;   // how many uvec4 there are to do
    uint flags;    // 1: a is `scalar`; 2: b is `scalar`; the buffer is then not read
    uvec4 scalar;  // the element, repeated
};

uvec4 multiply_f32(uvec4 x, uvec4 y) {
    return floatBitsToUint(uintBitsToFloat(x) * uintBitsToFloat(y));
}

#ifdef HAS_DOUBLE
uvec4 multiply_f64(uvec4 x, uvec4 y) {
    uvec2 low = unpackDouble2x32(packDouble2x32(x.xy) * packDouble2x32(y.xy));
    uvec2 high = unpackDouble2x32(packDouble2x32(x.zw) * packDouble2x32(y.zw));
    return uvec4(low, high);
}
#endif

void main() {
    // Groups beyond the device's maximum in x go on in y.
    uint i = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    if (i >= n_vec4) return;
    uvec4 x = scalar;
    uvec4 y = scalar;
    if ((flags & 1u) == 0u) x = a[i];
    if ((flags & 2u) == 0u) y = b[i];
    c[i] = MULTIPLY(x, y);
}
