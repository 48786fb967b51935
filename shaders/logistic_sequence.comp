// Steps in a row by one workgroup, for batches so small that launching kernels would take longer than what they do.
#version 460

layout(local_size_x_id = 1) in;
layout(constant_id = 0) const uint N_FEATURES = 2;
layout(constant_id = 1) const uint N_LANES = 64;
layout(constant_id = 2) const uint N_STEPS = 64;

// Coherent: what one invocation writes in a step, the others read in the next.
layout(std430, set = 0, binding = 3) coherent buffer Weights { float weights[]; };  // then as many rests
#define STATE_ACCESS coherent
#define STATE_BINDING 4
#include "logistic_step.glsl"
#include "logistic_weights.glsl"
#include "logistic_tiles.glsl"

void main() {
    uint lane = gl_LocalInvocationID.x;
    for (uint i = 0u; i < N_STEPS; ++i) {
        if (stopped != 0u || epoch == max_epochs) break;
#ifdef GATHER
        if (i > 0u && batch % n_ordered == 0u) break;  // the rest of the order is not there yet
#endif
        float n = weight_of_batch();
        float squared_weights = 0.0;
        if (lane == 0u) for (uint j = 0u; j < N_FEATURES; ++j) squared_weights += weights[j] * weights[j];
        sum_tiles(lane);
        barrier();
        sum_columns(lane);
        for (uint j = lane; j < N_FEATURES; j += N_LANES) move_weight(j, column_sum(2u + j), n);
        if (lane == 0u) end_step(column_sum(0u), column_sum(1u), squared_weights);
        memoryBarrierBuffer();
        barrier();
    }
}
