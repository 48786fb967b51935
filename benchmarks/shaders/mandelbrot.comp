#version 460
layout(local_size_x = 16, local_size_y = 8) in;
layout(set = 0, binding = 0) writeonly buffer Out { float picture[]; };
layout(push_constant) uniform Parameters { int limit; int rows; int columns; };

float escape(float real, float imaginary) {
    float x = 0, y = 0;
    for (int step = 0; step < limit; step++) {
        float size = x * x + y * y;
        if (size > 64) return step + 1 - log2(0.5 * log2(size));
        float next = x * x - y * y + real;
        y = 2 * x * y + imaginary;
        x = next;
    }
    return 0;
}

void main() {
    int column = int(gl_GlobalInvocationID.x), row = int(gl_GlobalInvocationID.y);
    if (row < rows && column < columns) {
        float real = 3 * (column + 0.5) / columns - 2.25, imaginary = 2.5 * (row + 0.5) / rows - 1.25;
        picture[row * columns + column] = escape(real, imaginary);
    }
}
