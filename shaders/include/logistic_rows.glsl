// Where the rows of a step come from. Data lies in tiles of four rows, [tile][feature][row of the tile], so that a vec4
// is one feature of four rows. A dispatch sees one chunk of the tiles.
//
// Unless it GATHERS, a step takes the tiles of the chunk as they lie. If it does, it takes the rows that `order` names;
// those of other chunks get t = 0 here, and the dispatch for their own chunk counts them.
#ifndef LOGISTIC_ROWS_GLSL
#define LOGISTIC_ROWS_GLSL

#extension GL_EXT_samplerless_texture_functions : require

#include "logistic_parameters.glsl"

layout(constant_id = 10) const bool GATHERS = false;

// Whether they are loaded as texels: only one of the two bindings of a table is then looked at.
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
    uvec4 tile;  // where only tile.x counts, unless GATHERS
    uvec4 row;   // of the tile
    bvec4 here;  // whether it counts here
};

// The rows of a tile, or those at positions 4 tile to 4 tile + 3 of a batch.
Rows find_rows(const uint tile, const uint batch) {
    if (!GATHERS) return Rows(uvec4(tile), uvec4(0u), bvec4(true));
    uint start = (batch % n_ordered) * batch_size;
    uint n_rows_of_batch = min(batch_size, n_rows - batch * batch_size);
    uvec4 position = 4u * tile + uvec4(0u, 1u, 2u, 3u);
    uvec4 at = start + min(position, uvec4(n_rows_of_batch - 1u));
    uvec4 row = uvec4(order[at.x], order[at.y], order[at.z], order[at.w]) - first_row;
    // Rows before the chunk have wrapped around to large numbers.
    bvec4 here = bvec4(uvec4(lessThan(row, uvec4(n_rows_here))) & uvec4(lessThan(position, uvec4(n_rows_of_batch))));
    row = mix(uvec4(0u), row, here);
    return Rows(row >> 2u, row & 3u, here);
}

// +w or -w of each row, 0 for one that does not count.
vec4 rows_targets(const Rows rows) {
    if (!GATHERS) return targets_at(rows.tile.x);
    vec4 t = vec4(
        targets_at(rows.tile.x, rows.row.x), targets_at(rows.tile.y, rows.row.y),
        targets_at(rows.tile.z, rows.row.z), targets_at(rows.tile.w, rows.row.w));
    return mix(vec4(0.0), t, rows.here);
}

// One feature of each row; `n` is how many there are, known when the shader is compiled where it can be.
vec4 rows_feature(const Rows rows, const uint feature, const uint n) {
    uvec4 at = rows.tile * n + feature;
    if (!GATHERS) return data_at(at.x);
    return vec4(
        data_at(at.x, rows.row.x), data_at(at.y, rows.row.y), data_at(at.z, rows.row.z), data_at(at.w, rows.row.w));
}

#endif
