#version 460
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer Y { float y[]; };
layout(set = 0, binding = 2) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Parameters { float a; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < result.length()) result[i] = a * x[i] + y[i];
}
