// Where the rows of a step come from. Data lies in tiles of four rows, [tile][feature][row of the tile], so that a vec4
// is one feature of four rows. A dispatch sees one chunk of the tiles.
//
// Without GATHER a step takes the tiles of the chunk as they lie. With GATHER it takes the rows that `order` names;
// those of other chunks get t = 0 here, and the dispatch for their own chunk counts them.
#ifndef LOGISTIC_ROWS_GLSL
#define LOGISTIC_ROWS_GLSL

layout(push_constant) uniform Step {
    uint n_tiles;         // of this dispatch
    uint tiles_per_lane;
    uint first_slot;      // of the partial sums that this dispatch writes
    uint n_rows;          // of the whole table
    uint batch_size;
    uint n_ordered;       // batches that `order` holds
    uint first_row;       // of the chunk
    uint n_rows_here;     // of the chunk
};

#ifdef GATHER

layout(std430, set = 0, binding = 0) readonly buffer Data { float data[]; };
layout(std430, set = 0, binding = 1) readonly buffer Targets { float targets[]; };
layout(std430, set = 0, binding = 2) readonly buffer Order { uint order[]; };

struct Rows {
    uvec4 row;   // of the chunk
    bvec4 here;  // whether it counts here
};

// The rows at positions 4 tile to 4 tile + 3 of a batch.
Rows find_rows(uint tile, uint batch) {
    uint start = (batch % n_ordered) * batch_size;
    uint n_rows_of_batch = min(batch_size, n_rows - batch * batch_size);
    uvec4 position = 4u * tile + uvec4(0u, 1u, 2u, 3u);
    uvec4 at = start + min(position, uvec4(n_rows_of_batch - 1u));
    uvec4 row = uvec4(order[at.x], order[at.y], order[at.z], order[at.w]) - first_row;
    // Rows before the chunk have wrapped around to large numbers.
    bvec4 here = bvec4(uvec4(lessThan(row, uvec4(n_rows_here))) & uvec4(lessThan(position, uvec4(n_rows_of_batch))));
    return Rows(mix(uvec4(0u), row, here), here);
}

vec4 rows_targets(Rows rows) {
    uvec4 at = rows.row;
    return mix(vec4(0.0), vec4(targets[at.x], targets[at.y], targets[at.z], targets[at.w]), rows.here);
}

vec4 rows_feature(Rows rows, uint feature, uint n_features) {
    uvec4 at = (((rows.row >> 2u) * n_features + feature) << 2u) + (rows.row & 3u);
    return vec4(data[at.x], data[at.y], data[at.z], data[at.w]);
}

#else

layout(std430, set = 0, binding = 0) readonly buffer Data { vec4 data[]; };
layout(std430, set = 0, binding = 1) readonly buffer Targets { vec4 targets[]; };

struct Rows { uint tile; };

Rows find_rows(uint tile, uint batch) { return Rows(tile); }

vec4 rows_targets(Rows rows) { return targets[rows.tile]; }

vec4 rows_feature(Rows rows, uint feature, uint n_features) { return data[rows.tile * n_features + feature]; }

#endif

#endif
