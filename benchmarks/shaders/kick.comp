#version 460
// A step of examples/n_body.py.
#define TILE 64
#define SOFTENING 0.05
layout(local_size_x = TILE) in;
layout(set = 0, binding = 0) readonly buffer Position { float position[]; };
layout(set = 0, binding = 1) readonly buffer Mass { float mass[]; };
layout(set = 0, binding = 2) buffer Velocity { float velocity[]; };
layout(push_constant) uniform Parameters { float seconds; };
shared float x[TILE], y[TILE], z[TILE], m[TILE];

void main() {
    int n = mass.length(), i = int(gl_GlobalInvocationID.x), here = int(gl_LocalInvocationID.x);
    int me = min(i, n - 1);
    float px = position[me], py = position[n + me], pz = position[2 * n + me];
    float ax = 0, ay = 0, az = 0;
    for (int start = 0; start < n; start += TILE) {
        int other = min(start + here, n - 1);
        x[here] = position[other];
        y[here] = position[n + other];
        z[here] = position[2 * n + other];
        m[here] = start + here < n ? mass[other] : 0;
        barrier();
        for (int k = 0; k < TILE; k++) {
            float dx = x[k] - px, dy = y[k] - py, dz = z[k] - pz;
            float square = dx * dx + dy * dy + dz * dz + SOFTENING * SOFTENING;
            float pull = m[k] / (square * sqrt(square));
            ax += pull * dx;
            ay += pull * dy;
            az += pull * dz;
        }
        barrier();
    }
    if (i < n) {
        velocity[i] += ax * seconds;
        velocity[n + i] += ay * seconds;
        velocity[2 * n + i] += az * seconds;
    }
}
