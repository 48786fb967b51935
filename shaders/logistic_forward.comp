// Partial z for a table of many features: products of the tiles with one slab of the weights. A workgroup computes the
// tiles of 64 lanes along x and one slab along y.
#version 460

layout(local_size_x = 64) in;

#include "logistic_rows.glsl"

layout(std430, set = 0, binding = 5) readonly buffer Weights { vec4 weights[]; };
#define STATE_ACCESS readonly
#define STATE_BINDING 6
#include "logistic_state.glsl"
layout(std430, set = 0, binding = 7) writeonly buffer Parts { vec4 parts[]; };  // [slab][tile]

layout(constant_id = 0) const uint SLAB_VEC4 = 64;  // four weights each

void main() {
    if (stopped != 0u) return;
    uint this_batch = batch;
    uint last = n_features - 1u;
    uint first = gl_WorkGroupID.y * SLAB_VEC4;
    uint end = min(first + SLAB_VEC4, (n_features + 3u) / 4u);
    uint tile = gl_WorkGroupID.x * tiles_per_lane * 64u + gl_LocalInvocationID.x;
    for (uint i = 0u; i < tiles_per_lane && tile < n_tiles; ++i, tile += 64u) {
        Rows rows = find_rows(tile, this_batch);
        vec4 z = vec4(0.0);
        for (uint k = first; k < end; ++k) {
            vec4 w = weights[k];  // zero past the last feature
            z += w.x * rows_feature(rows, 4u * k, n_features);
            z += w.y * rows_feature(rows, min(4u * k + 1u, last), n_features);
            z += w.z * rows_feature(rows, min(4u * k + 2u, last), n_features);
            z += w.w * rows_feature(rows, min(4u * k + 3u, last), n_features);
        }
        parts[gl_WorkGroupID.y * n_tiles + tile] = z;
    }
}
