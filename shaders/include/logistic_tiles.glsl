// One pass over the rows of a table of few features. The features of a row are loaded once and stay in registers
// between z and the gradient. The including shader declares N_FEATURES, N_LANES, `weights` and the state.
#ifndef LOGISTIC_TILES_GLSL
#define LOGISTIC_TILES_GLSL

#include "logistic_loss.glsl"
#include "logistic_rows.glsl"

const uint N_COLUMNS = N_FEATURES + 2u;  // loss, residual, gradient
const uint TILES_AT_ONCE = 64u;
shared float lane_sums[N_COLUMNS * N_LANES];

float total(const vec4 x) { return (x.x + x.y) + (x.z + x.w); }

// Writes the sums of a lane over its tiles to `lane_sums`: [column][lane]. Each is a sum of sums over TILES_AT_ONCE
// tiles: adding n equal terms one by one loses up to n / 2 units in the last place.
void sum_tiles_of(const uint lane) {
    float w[N_FEATURES];
    for (uint j = 0u; j < N_FEATURES; ++j) w[j] = weights[j];
    for (uint column = 0u; column < N_COLUMNS; ++column) lane_sums[column * N_LANES + lane] = 0.0;
    float offset = intercept;
    uint this_batch = batch;
    uint tile = gl_WorkGroupID.x * tiles_per_lane * N_LANES + lane;
    for (uint start = 0u; start < tiles_per_lane; start += TILES_AT_ONCE) {
        uint stop = min(start + TILES_AT_ONCE, tiles_per_lane);
        float loss_sum = 0.0, residual_sum = 0.0, gradient[N_FEATURES];
        for (uint j = 0u; j < N_FEATURES; ++j) gradient[j] = 0.0;
        for (uint i = start; i < stop && tile < n_tiles; ++i, tile += N_LANES) {
            Rows rows = find_rows(tile, this_batch);
            vec4 x[N_FEATURES];
            vec4 z = vec4(offset);
            for (uint j = 0u; j < N_FEATURES; ++j) {
                x[j] = rows_feature(rows, j, N_FEATURES);
                z += w[j] * x[j];
            }
            vec4 loss, residual;
            logistic_loss(z, rows_targets(rows), loss, residual);
            loss_sum += total(loss);
            residual_sum += total(residual);
            for (uint j = 0u; j < N_FEATURES; ++j) gradient[j] += dot(residual, x[j]);
        }
        lane_sums[lane] += loss_sum;
        lane_sums[N_LANES + lane] += residual_sum;
        for (uint j = 0u; j < N_FEATURES; ++j) lane_sums[(2u + j) * N_LANES + lane] += gradient[j];
    }
}

#include "logistic_columns.glsl"

// Sums over all tiles of the workgroup, for column_sum().
void sum_tiles(const uint lane) {
    sum_tiles_of(lane);
    barrier();
    sum_columns(lane);
}

#endif
