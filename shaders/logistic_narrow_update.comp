// The end of a step for a table of few features, by one workgroup: sums the partial sums and moves the weights.
#version 460

layout(local_size_x_id = 1) in;
layout(constant_id = 0) const uint N_FEATURES = 2;
layout(constant_id = 1) const uint N_LANES = 64;

layout(std430, set = 0, binding = 0) readonly buffer Sums { float sums[]; };  // [slot][column]
layout(std430, set = 0, binding = 1) buffer Weights { float weights[]; };  // then as many rests
#define STATE_BINDING 2
#include "logistic_step.glsl"
#include "logistic_weights.glsl"

const uint N_COLUMNS = N_FEATURES + 2u;
shared float lane_sums[N_COLUMNS * N_LANES];

#include "logistic_columns.glsl"

void main() {
    if (stopped != 0u) return;
    uint lane = gl_LocalInvocationID.x;
    for (uint column = 0u; column < N_COLUMNS; ++column) {
        float sum = 0.0;
        for (uint slot = lane; slot < n_slots; slot += N_LANES) sum += sums[slot * N_COLUMNS + column];
        lane_sums[column * N_LANES + lane] = sum;
    }
    float squared_weights = 0.0;
    if (lane == 0u) for (uint j = 0u; j < N_FEATURES; ++j) squared_weights += weights[j] * weights[j];
    float n = weight_of_batch();
    barrier();
    sum_columns(lane);
    for (uint j = lane; j < N_FEATURES; j += N_LANES) move_weight(j, column_sum(2u + j), n);
    if (lane == 0u) end_step(column_sum(0u), column_sum(1u), squared_weights);
}
