// Gradient for a table of many features: an invocation sums four features over a slice of the tiles. The grid is
// features along x, slices along y.
#version 460

layout(local_size_x = 64, local_size_x_id = 0) in;

#include "logistic_rows.glsl"

layout(std430, set = 0, binding = 5) readonly buffer Residuals { vec4 residuals[]; };  // [tile]
#define STATE_ACCESS readonly
#define STATE_BINDING 6
#include "logistic_state.glsl"
layout(std430, set = 0, binding = 7) writeonly buffer Sums { vec4 sums[]; };  // [workgroup][four features]

void main() {
    uint k = gl_GlobalInvocationID.x;
    uint n_vec4 = (n_features + 3u) / 4u;
    if (stopped != 0u || k >= n_vec4) return;
    uint this_batch = batch;
    uvec4 wanted = 4u * k + uvec4(0u, 1u, 2u, 3u);
    uvec4 feature = min(wanted, uvec4(n_features - 1u));
    vec4 sum = vec4(0.0);
    uint tile = gl_WorkGroupID.y * tiles_per_lane;
    uint end = min(tile + tiles_per_lane, n_tiles);
    while (tile < end) {
        vec4 part = vec4(0.0);  // of 64 tiles: see logistic_tiles.glsl
        for (uint stop = min(tile + 64u, end); tile < stop; ++tile) {
            Rows rows = find_rows(tile, this_batch);
            vec4 residual = residuals[tile];
            part += vec4(
                dot(residual, rows_feature(rows, feature.x, n_features)),
                dot(residual, rows_feature(rows, feature.y, n_features)),
                dot(residual, rows_feature(rows, feature.z, n_features)),
                dot(residual, rows_feature(rows, feature.w, n_features)));
        }
        sum += part;
    }
    // Weights past the last feature are zero and stay zero.
    sums[(first_partial_sum + gl_WorkGroupID.y) * n_vec4 + k] = mix(vec4(0.0), sum, lessThan(wanted, uvec4(n_features)));
}
