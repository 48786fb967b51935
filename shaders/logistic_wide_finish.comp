// The end of a step for a table of many features, by one workgroup.
#version 460

layout(local_size_x = 64) in;
const uint N_LANES = 64u;

layout(std430, set = 0, binding = 0) readonly buffer Sums { vec2 sums[]; };  // [workgroup]: loss, residual
layout(std430, set = 0, binding = 1) readonly buffer Squares { float squares[]; };  // of groups of four weights
#define STATE_BINDING 2
#include "logistic_step.glsl"

const uint N_COLUMNS = 3u;
shared float lane_sums[N_COLUMNS * N_LANES];

#include "logistic_columns.glsl"

void main() {
    if (stopped != 0u) return;
    uint lane = gl_LocalInvocationID.x;
    vec2 sum = vec2(0.0);
    for (uint i = lane; i < n_partial_sums; i += 64u) sum += sums[i];
    float squared_weights = 0.0;
    for (uint k = lane; k < squares.length(); k += 64u) squared_weights += squares[k];
    lane_sums[lane] = sum.x;
    lane_sums[64u + lane] = sum.y;
    lane_sums[128u + lane] = squared_weights;
    barrier();
    sum_columns(lane);
    if (lane == 0u) end_step(column_sum(0u), column_sum(1u), column_sum(2u));
}
