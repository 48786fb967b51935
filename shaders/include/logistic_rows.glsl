// The rows of a step. Data is stored in tiles of four rows, [tile][feature][row of the tile], so that a vec4 is one
// feature of four rows. A dispatch has one chunk of the tiles.
//
// Without GATHERS, a step takes the tiles of the chunk in order. With GATHERS, it takes the rows in `order`; rows of
// other chunks get t = 0 here, and count in the dispatch for their own chunk.
#ifndef LOGISTIC_ROWS_GLSL
#define LOGISTIC_ROWS_GLSL

#extension GL_EXT_samplerless_texture_functions : require

#include "logistic_parameters.glsl"

layout(constant_id = 10) const bool GATHERS = false;

// True: load texels, else storage buffers. Only one of the two bindings of a table is used.
layout(constant_id = 11) const bool TEXELS = false;

layout(std430, set = 0, binding = 0) readonly buffer Data { vec4 data[]; };
layout(std430, set = 0, binding = 1) readonly buffer Targets { vec4 targets[]; };
layout(std430, set = 0, binding = 2) readonly buffer Order { uint order[]; };
layout(set = 0, binding = 3) uniform textureBuffer data_texels;
layout(set = 0, binding = 4) uniform textureBuffer target_texels;

vec4 data_at(const uint i) {
    if (TEXELS) return texelFetch(data_texels, int(i));
    return data[i];
}

float data_at(const uint i, const uint row) {
    if (TEXELS) return texelFetch(data_texels, int(i))[row];
    return data[i][row];
}

vec4 targets_at(const uint i) {
    if (TEXELS) return texelFetch(target_texels, int(i));
    return targets[i];
}

float targets_at(const uint i, const uint row) {
    if (TEXELS) return texelFetch(target_texels, int(i))[row];
    return targets[i][row];
}

struct Rows {
    uvec4 tile;  // without GATHERS, only tile.x is valid
    uvec4 row;   // of the tile
    bvec4 here;  // true if the row is in this chunk
};

// The rows of a tile, or with GATHERS the rows at positions 4 tile to 4 tile + 3 of a batch.
Rows find_rows(const uint tile, const uint batch) {
    if (!GATHERS) return Rows(uvec4(tile), uvec4(0u), bvec4(true));
    uint start = (batch % n_ordered) * batch_size;
    uint n_rows_of_batch = min(batch_size, n_rows - batch * batch_size);
    uvec4 position = 4u * tile + uvec4(0u, 1u, 2u, 3u);
    uvec4 at = start + min(position, uvec4(n_rows_of_batch - 1u));
    uvec4 row = uvec4(order[at.x], order[at.y], order[at.z], order[at.w]) - first_row;
    // Indices of rows before the chunk wrap to large numbers.
    bvec4 here = bvec4(uvec4(lessThan(row, uvec4(n_rows_here))) & uvec4(lessThan(position, uvec4(n_rows_of_batch))));
    row = mix(uvec4(0u), row, here);
    return Rows(row >> 2u, row & 3u, here);
}

// +w or -w of each row, 0 for an ignored row.
vec4 rows_targets(const Rows rows) {
    if (!GATHERS) return targets_at(rows.tile.x);
    vec4 t = vec4(
        targets_at(rows.tile.x, rows.row.x), targets_at(rows.tile.y, rows.row.y),
        targets_at(rows.tile.z, rows.row.z), targets_at(rows.tile.w, rows.row.w));
    return mix(vec4(0.0), t, rows.here);
}

// One feature of each row, of `n` features: a constant where possible.
vec4 rows_feature(const Rows rows, const uint feature, const uint n) {
    uvec4 at = rows.tile * n + feature;
    if (!GATHERS) return data_at(at.x);
    return vec4(
        data_at(at.x, rows.row.x), data_at(at.y, rows.row.y), data_at(at.z, rows.row.z), data_at(at.w, rows.row.w));
}

#endif
