#version 460
#define T 16
layout(local_size_x = T, local_size_y = T) in;
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Parameters { int rows; int inner; int columns; };
shared float tile_a[T][T], tile_b[T][T];

void main() {
    int column = int(gl_GlobalInvocationID.x), row = int(gl_GlobalInvocationID.y);
    uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y;
    float total = 0;
    for (int start = 0; start < inner; start += T) {
        tile_a[y][x] = 0;
        tile_b[y][x] = 0;
        if (row < rows && start + x < inner) tile_a[y][x] = a[row * inner + start + x];
        if (start + y < inner && column < columns) tile_b[y][x] = b[(start + y) * columns + column];
        barrier();
        for (int k = 0; k < T; k++) total += tile_a[y][k] * tile_b[k][x];
        barrier();
    }
    if (row < rows && column < columns) result[row * columns + column] = total;
}
