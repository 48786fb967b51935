#version 460
#define BINS 64
layout(local_size_x = 256) in;
layout(set = 0, binding = 0) readonly buffer X { int x[]; };
layout(set = 0, binding = 1) buffer Counts { uint counts[]; };
shared uint own[BINS];

void main() {
    uint i = gl_GlobalInvocationID.x, here = gl_LocalInvocationID.x;
    if (here < BINS) own[here] = 0;
    barrier();
    if (i < x.length()) atomicAdd(own[x[i]], 1);
    barrier();
    if (here < BINS) atomicAdd(counts[here], own[here]);
}
