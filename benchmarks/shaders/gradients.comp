#version 460
// A step of examples/logreg_kernels.py.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Xi { float x_i[]; };
layout(set = 0, binding = 1) readonly buffer Xj { float x_j[]; };
layout(set = 0, binding = 2) readonly buffer Y { float y[]; };
layout(set = 0, binding = 3) readonly buffer Weights { float weights[]; };
layout(set = 0, binding = 4) writeonly buffer Parts { float parts[]; };
layout(set = 0, binding = 5) writeonly buffer Losses { float losses[]; };

void main() {
    uint row = gl_GlobalInvocationID.x, rows = y.length();
    if (row < rows) {
        float z = weights[0] * x_i[row] + weights[1] * x_j[row] + weights[2];
        float p = 1 / (1 + exp(-z));
        parts[row] = (p - y[row]) * x_i[row];
        parts[rows + row] = (p - y[row]) * x_j[row];
        parts[2 * rows + row] = p - y[row];
        losses[row] = -y[row] * log(p) - (1 - y[row]) * log(1 - p);
    }
}
