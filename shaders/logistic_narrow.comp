// Loss, residual and gradient for a table of few features, summed over the rows of a workgroup.
#version 460

layout(local_size_x_id = 1) in;
layout(constant_id = 0) const uint N_FEATURES = 2;
layout(constant_id = 1) const uint N_LANES = 64;

layout(std430, set = 0, binding = 3) readonly buffer Weights { float weights[]; };
#define STATE_ACCESS readonly
#define STATE_BINDING 4
#include "logistic_state.glsl"
layout(std430, set = 0, binding = 5) writeonly buffer Sums { float sums[]; };  // [slot][column]

#include "logistic_tiles.glsl"

void main() {
    if (stopped != 0u) return;
    uint lane = gl_LocalInvocationID.x;
    sum_tiles(lane);
    barrier();
    sum_columns(lane);
    uint first = (first_slot + gl_WorkGroupID.x) * N_COLUMNS;
    for (uint column = lane; column < N_COLUMNS; column += N_LANES) sums[first + column] = column_sum(column);
}
