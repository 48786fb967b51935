"""GLSL compute shaders, one feature or two each, for the tests of this folder."""

from __future__ import annotations

HEAD = "#version 460\nlayout(local_size_x = 64) in;\n"
EXTENSIONS = """
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
"""

SOURCES: dict[str, str] = {
    "multiply": HEAD
    + """
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer C { float c[]; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < c.length()) c[i] = a[i] * b[i]; }
""",
    "undecorated": HEAD
    + """
layout(binding = 3) buffer A { float a[]; };
layout(binding = 1) buffer B { float b[]; };
layout(set = 1, binding = 0) buffer C { float c[]; };
layout(binding = 7) buffer D { int only_length[]; };
layout(binding = 8) buffer E { int counter; } e;
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < only_length.length()) { c[i] += a[i]; b[i] = 1.0; atomicAdd(e.counter, 1); }
}
""",
    "calls": HEAD
    + """
struct Item { vec4 v; int n; };
layout(binding = 0, std430) buffer In { float x[]; } src;
layout(binding = 1, std430) buffer Out { float y[]; } dst;
layout(binding = 2, std430) buffer Items { Item items[]; };
layout(binding = 3, std430) buffer Unreached { float u[]; };
shared float tile[64];
float load(uint i) { return src.x[i]; }
void store(uint i, float value) { dst.y[i] = value; }
void change(inout Item item) { item.n += 1; }
void unreached() { u[0] = 1.0; }
void main() {
    uint i = gl_LocalInvocationIndex;
    tile[i] = load(i);
    barrier();
    store(i, tile[63u - i]);
    change(items[i]);
    for (int k = 0; k < 4; ++k) { if (items[k].n > 3) continue; dst.y[k] *= 2.0; }
}
""",
    "structs": HEAD
    + """
struct Inner { vec3 v; float f; };
layout(binding = 0, std430) readonly buffer Params { int n; Inner inner[2]; mat4 m; mat3x2 columns;
    layout(row_major) mat3x2 rows; float tail[]; } params;
layout(binding = 1, std140) uniform Settings { vec4 scale; float weights[4]; } settings;
layout(binding = 2, std430) buffer Out { vec4 y[]; };
void main() { y[gl_GlobalInvocationID.x] = params.m * settings.scale + params.tail[0] + params.inner[1].v.xyzz
    + settings.weights[params.n] + params.columns[0].x + params.rows[0].x; }
""",
    "push": HEAD
    + EXTENSIONS
    + """
struct Pair { int16_t a; int8_t b; };
layout(push_constant, std430) uniform Push {
    int n; uint count; float scale; vec3 offset; double exact; bool flag; float table[4]; ivec2 grid[2]; mat4 m;
    int64_t big; Pair pairs[3];
} pc;
layout(binding = 0) buffer A { float a[]; };
void main() {
    if (pc.flag) a[pc.n] = pc.scale * pc.table[pc.count] + pc.offset.x + float(pc.exact) + float(pc.grid[1].y)
        + pc.m[0].x + float(pc.big) + float(pc.pairs[1].a) + float(pc.pairs[2].b);
}
""",
    "spec": """#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x_id = 10, local_size_y = 4, local_size_z_id = 12) in;
layout(constant_id = 0) const bool on = true;
layout(constant_id = 1) const int negative = -5;
layout(constant_id = 2) const uint many = 4000000000u;
layout(constant_id = 3) const float half_ = 0.5;
layout(constant_id = 4) const double third = 1.0 / 3.0;
layout(constant_id = 5) const int64_t big = -9000000000L;
layout(constant_id = 6) const uint64_t huge = 0xFFFFFFFFFFFFFFFFUL;
layout(constant_id = 7) const float16_t small = 1.5hf;
layout(constant_id = 8) const int16_t short_ = int16_t(-3);
layout(constant_id = 9) const uint8_t byte_ = uint8_t(200);
layout(binding = 0) buffer A { double a[]; };
void main() { a[0] = on ? double(negative) + many + half_ + third + double(big) + double(huge) + double(small)
    : 0.0; if (short_ == int16_t(3) || byte_ > uint8_t(7)) a[1] = 1.0; }
""",
    "narrow": HEAD
    + EXTENSIONS
    + """
layout(binding = 0) readonly buffer A { int8_t a[]; };
layout(binding = 1) readonly buffer B { u16vec2 b[]; };
layout(binding = 2) readonly buffer C { float16_t c[]; };
layout(binding = 3) writeonly buffer D { u64vec4 d[]; };
layout(binding = 4) writeonly buffer E { double e[]; };
layout(binding = 5) readonly buffer F { uint8_t f[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    d[i] = u64vec4(a[i], b[i].x, f[i], 1); e[i] = double(c[i]);
}
""",
    "texels": HEAD
    + """
layout(binding = 0) uniform samplerBuffer source;
layout(binding = 1, r32ui) uniform uimageBuffer counters;
layout(binding = 2, rgba32f) uniform writeonly image2D picture;
layout(binding = 3, rgba8) uniform readonly image2D old[2];
layout(binding = 4) uniform sampler2D smooth_;
layout(binding = 5) uniform texture2D plain;
layout(binding = 6) uniform sampler nearest;
layout(binding = 7, rgba32f) uniform image3D both;
layout(binding = 8, r32f) uniform image1D unused_size;
layout(binding = 9) uniform isamplerBuffer sizes;
void main() {
    ivec2 p = ivec2(gl_GlobalInvocationID.xy);
    vec4 v = texelFetch(source, p.x) + imageLoad(old[1], p) + textureLod(smooth_, vec2(p), 0.0);
    v += textureLod(sampler2D(plain, nearest), vec2(p), 0.0);
    if (p.x < imageSize(unused_size) + textureSize(sizes)) imageStore(picture, p, v);
    imageAtomicAdd(counters, p.x, 1u);
    imageStore(both, ivec3(p, 0), imageLoad(both, ivec3(p, 1)));
}
""",
    "atomics": HEAD
    + """
#extension GL_EXT_shader_atomic_float : require
#extension GL_KHR_memory_scope_semantics : require
layout(binding = 0) buffer A { float sums[]; };
layout(binding = 1) buffer B { uint loaded[]; };
layout(binding = 2) buffer C { uint stored[]; };
layout(binding = 3) buffer D { uint swapped[]; };
shared uint local_sum;
void main() {
    atomicAdd(sums[0], 1.0);
    uint v = atomicLoad(loaded[0], gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquire);
    atomicStore(stored[0], v, gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsRelease);
    atomicCompSwap(swapped[0], 1u, v);
    atomicMax(local_sum, v);
}
""",
    "subgroups": HEAD
    + """
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_clustered : require
layout(binding = 0) buffer A { float a[]; };
void main() {
    float s = subgroupAdd(a[gl_GlobalInvocationID.x]) + subgroupClusteredMax(a[0], 4u);
    if (subgroupElect()) a[gl_SubgroupID] = s + subgroupShuffleXor(s, 1u) + subgroupBallot(true).x;
}
""",
    "arrays": HEAD
    + """
#extension GL_EXT_nonuniform_qualifier : require
layout(binding = 0) buffer A { float a[]; } inputs[3];
layout(binding = 1) writeonly buffer B { float b[]; } outputs[];
layout(binding = 2) uniform sampler2D images[4];
void main() { uint i = gl_GlobalInvocationID.x; outputs[nonuniformEXT(i)].b[0] = inputs[2].a[i]
    + textureLod(images[3], vec2(0), 0.0).x; }
""",
    "alias": HEAD
    + """
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 0) readonly buffer A4 { vec4 a4[]; };
layout(binding = 1) writeonly buffer B { float b[]; };
layout(binding = 1) readonly buffer B2 { float b2[]; };
void main() { b[0] = a[0] + a4[1].x + b2[3]; }
""",
    "addresses": HEAD
    + """
#extension GL_EXT_buffer_reference : require
layout(buffer_reference) buffer Node;
layout(buffer_reference, std430) buffer Node { float value; Node next; };
layout(push_constant) uniform P { Node head; uint n; } p;
layout(binding = 0) writeonly buffer A { float a[]; };
void main() { Node node = p.head; for (uint i = 0u; i < p.n; ++i) node = node.next; a[0] = node.value; }
""",
    "fixed": HEAD
    + """
layout(binding = 0) readonly buffer A { float a[16]; };
layout(binding = 1) buffer B { layout(offset = 16) float b[]; };
layout(binding = 2) buffer C { vec3 c[]; };
layout(binding = 3) buffer D { mat2 d[]; };
layout(binding = 4) coherent volatile buffer E { uint n; uint e[]; } ee;
void main() { b[0] = a[1]; c[0] = vec3(1); d[0] = mat2(1); ee.e[ee.n] = 1u; }
""",
    "control": HEAD
    + """
layout(binding = 0) buffer A { int a[]; };
layout(push_constant) uniform P { int which; int n; } p;
int pick(int i) { switch (i) { case 0: return 1; case 7: i += 2; case 9: break; default: return 5; } return i; }
void main() {
    switch (p.which) { case 1: a[0] = 1; break; case -7: a[0] = 2; break; default: a[0] = pick(a[1]); }
    int i = 0;
    do { a[i] = i % 2 == 0 ? a[i] : -a[i]; while (a[i] > 3) { a[i] /= 2; if (i > 9) break; } }
    while (++i < p.n);
}
""",
    "nothing": HEAD + "void main() {}\n",
}
