// Loss and its derivative for a table of many features: adds partial z, and sums over the rows of a workgroup.
#version 460

layout(local_size_x = 64) in;
const uint N_LANES = 64u;

#include "logistic_rows.glsl"
#include "logistic_loss.glsl"

layout(std430, set = 0, binding = 5) readonly buffer Parts { vec4 parts[]; };  // [slab][tile]
#define STATE_ACCESS readonly
#define STATE_BINDING 6
#include "logistic_state.glsl"
layout(std430, set = 0, binding = 7) writeonly buffer Residuals { vec4 residuals[]; };  // [tile]
layout(std430, set = 0, binding = 8) writeonly buffer Sums { float sums[]; };  // [workgroup][loss, residual]

layout(constant_id = 0) const uint N_SLABS = 1;
const uint N_COLUMNS = 2u;
shared float lane_sums[N_COLUMNS * N_LANES];

#include "logistic_columns.glsl"

void main() {
    if (stopped != 0u) return;
    uint lane = gl_LocalInvocationID.x;
    uint this_batch = batch;
    float offset = intercept;
    float loss_sum = 0.0;
    float residual_sum = 0.0;
    uint tile = gl_WorkGroupID.x * tiles_per_lane * 64u + lane;
    for (uint start = 0u; start < tiles_per_lane; start += 64u) {
        vec2 sum = vec2(0.0);  // of 64 tiles: see logistic_tiles.glsl
        uint stop = min(start + 64u, tiles_per_lane);
        for (uint i = start; i < stop && tile < n_tiles; ++i, tile += N_LANES) {
            vec4 z = vec4(offset);
            for (uint slab = 0u; slab < N_SLABS; ++slab) z += parts[slab * n_tiles + tile];
            vec4 loss, residual;
            logistic_loss(z, rows_targets(find_rows(tile, this_batch)), loss, residual);
            residuals[tile] = residual;
            sum += vec2(dot(loss, vec4(1.0)), dot(residual, vec4(1.0)));
        }
        loss_sum += sum.x;
        residual_sum += sum.y;
    }
    lane_sums[lane] = loss_sum;
    lane_sums[64u + lane] = residual_sum;
    barrier();
    sum_columns(lane);
    if (lane < N_COLUMNS) sums[(first_partial_sum + gl_WorkGroupID.x) * N_COLUMNS + lane] = column_sum(lane);
}
