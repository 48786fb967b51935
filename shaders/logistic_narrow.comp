// Training steps for a table of few features. With N_STEPS 0, each workgroup sums over its rows, and the last one to
// finish takes the step. Otherwise a single workgroup makes N_STEPS steps, for batches so small that a launch would
// take longer than a step.
#version 460

layout(local_size_x_id = 1) in;
layout(constant_id = 0) const uint N_FEATURES = 2;
layout(constant_id = 1) const uint N_LANES = 64;
layout(constant_id = 2) const uint N_STEPS = 0;

// Coherent: invocations read values that others wrote before a barrier.
layout(std430, set = 0, binding = 5) coherent buffer Weights { float weights[]; };  // then as many rests
#define STATE_ACCESS coherent
#define STATE_BINDING 6
#include "logistic_step.glsl"
layout(std430, set = 0, binding = 7) coherent buffer Sums { float sums[]; };  // [workgroup][column]

#include "logistic_tiles.glsl"
#include "logistic_weights.glsl"

shared bool is_last_group;

// Writes the partial sums of this workgroup, and sets is_last_group if all other workgroups have written theirs.
void write_partial_sums(const uint lane) {
    sum_tiles(lane);
    uint first = (first_partial_sum + gl_WorkGroupID.x) * N_COLUMNS;
    for (uint column = lane; column < N_COLUMNS; column += N_LANES) sums[first + column] = column_sum(column);
    memoryBarrierBuffer();
    barrier();
    if (lane == 0u) is_last_group = atomicAdd(groups_done, 1u) + 1u == n_partial_sums;
    barrier();
    memoryBarrierBuffer();
}

// Adds up all partial sums, for column_sum(). The order of summation does not depend on the last group.
void add_partial_sums(const uint lane) {
    for (uint column = 0u; column < N_COLUMNS; ++column) {
        float sum = 0.0;
        for (uint i = lane; i < n_partial_sums; i += N_LANES) sum += sums[i * N_COLUMNS + column];
        lane_sums[column * N_LANES + lane] = sum;
    }
    barrier();
    sum_columns(lane);
}

void take_step(const uint lane) {
    // Read both before the first barrier; they change after it.
    float n = weight_of_batch();
    float squared_weights = 0.0;
    if (lane == 0u) for (uint j = 0u; j < N_FEATURES; ++j) squared_weights += weights[j] * weights[j];
    if (N_STEPS == 0u) {
        add_partial_sums(lane);
    } else {
        sum_tiles(lane);
    }
    for (uint j = lane; j < N_FEATURES; j += N_LANES) move_weight(j, column_sum(2u + j), n);
    if (lane == 0u) end_step(column_sum(0u), column_sum(1u), squared_weights);
    memoryBarrierBuffer();
    barrier();
}

void main() {
    uint lane = gl_LocalInvocationID.x;
    if (N_STEPS == 0u) {
        if (stopped != 0u) return;
        write_partial_sums(lane);
        if (!is_last_group) return;
        if (lane == 0u) groups_done = 0u;
        take_step(lane);
    }
    for (uint i = 0u; i < N_STEPS; ++i) {
        if (stopped != 0u || epoch == max_epochs) break;
        if (GATHERS && i > 0u && batch % n_ordered == 0u) break;  // the rest of the order is not yet on the device
        take_step(lane);
    }
}
