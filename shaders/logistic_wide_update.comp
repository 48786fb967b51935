// Update of the weights of a table of many features: a workgroup adds the partial sums of four features.
#version 460

layout(local_size_x = 64) in;
const uint N_LANES = 64u;

layout(std430, set = 0, binding = 0) readonly buffer Sums { vec4 sums[]; };  // [workgroup][four features]
layout(std430, set = 0, binding = 1) buffer Weights { float weights[]; };  // then as many rests
layout(std430, set = 0, binding = 2) writeonly buffer Squares { float squares[]; };  // of four weights each, before the step
#define STATE_BINDING 3
#include "logistic_step.glsl"
#include "logistic_weights.glsl"

const uint N_COLUMNS = 4u;
shared float lane_sums[N_COLUMNS * N_LANES];

#include "logistic_columns.glsl"

void main() {
    uint n_vec4 = uint(weights.length()) / 8u;
    // A grid above the device's maximum along x wraps to y.
    uint k = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x;
    if (stopped != 0u || k >= n_vec4) return;
    uint lane = gl_LocalInvocationID.x;
    vec4 sum = vec4(0.0);
    for (uint i = lane; i < n_partial_sums; i += 64u) sum += sums[i * n_vec4 + k];
    for (uint column = 0u; column < N_COLUMNS; ++column) lane_sums[column * 64u + lane] = sum[column];
    float n = weight_of_batch();
    barrier();
    if (lane == 0u) {
        vec4 w = vec4(weights[4u * k], weights[4u * k + 1u], weights[4u * k + 2u], weights[4u * k + 3u]);
        squares[k] = dot(w, w);
    }
    sum_columns(lane);
    if (lane < N_COLUMNS) move_weight(4u * k + lane, column_sum(lane), n);
}
