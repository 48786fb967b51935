// Sums of `lane_sums`, [column][lane], over the lanes. The including shader declares it, N_COLUMNS, and N_LANES (8 or
// 64). A tree of arity 8: a barrier is slow on software devices, and a binary tree has more levels.
#ifndef LOGISTIC_COLUMNS_GLSL
#define LOGISTIC_COLUMNS_GLSL

float sum_of_8(const uint first, const uint step) {
    return ((lane_sums[first] + lane_sums[first + step]) + (lane_sums[first + 2u * step] + lane_sums[first + 3u * step]))
        + ((lane_sums[first + 4u * step] + lane_sums[first + 5u * step])
            + (lane_sums[first + 6u * step] + lane_sums[first + 7u * step]));
}

// Call from all lanes, after a barrier; afterwards read column_sum() only.
void sum_columns(const uint lane) {
    if (N_LANES == 64u) {
        for (uint i = lane; i < 8u * N_COLUMNS; i += 64u) lane_sums[8u * i] = sum_of_8(8u * i, 1u);
        barrier();
    }
}

float column_sum(const uint column) { return sum_of_8(N_LANES * column, N_LANES / 8u); }

#endif
