// The sum of `lane_sums`, [column][lane], over the lanes; the including shader declares it, N_COLUMNS and N_LANES, which
// is 8 or 64. Rounds of eight: a barrier is dear on software devices, and a binary tree has one at each level.
#ifndef LOGISTIC_COLUMNS_GLSL
#define LOGISTIC_COLUMNS_GLSL

float sum_of_8(const uint first, const uint step) {
    return ((lane_sums[first] + lane_sums[first + step]) + (lane_sums[first + 2u * step] + lane_sums[first + 3u * step]))
        + ((lane_sums[first + 4u * step] + lane_sums[first + 5u * step])
            + (lane_sums[first + 6u * step] + lane_sums[first + 7u * step]));
}

// After this and a look at nothing but column_sum(): all lanes take part, a barrier stands before it.
void sum_columns(const uint lane) {
    if (N_LANES == 64u) {
        for (uint i = lane; i < 8u * N_COLUMNS; i += 64u) lane_sums[8u * i] = sum_of_8(8u * i, 1u);
        barrier();
    }
}

float column_sum(const uint column) { return sum_of_8(N_LANES * column, N_LANES / 8u); }

#endif
