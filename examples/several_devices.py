"""A picture computed by all devices of the machine, each a shard of the rows in proportion to its speed.

python examples/several_devices.py
"""

import numpy as np

import vkcompute as vc

WIDTH, HEIGHT, STEPS = 640, 480, 500
MANDELBROT = f"""
layout(local_size_x = 32) in;
layout(binding = 0) writeonly buffer Picture {{ uint steps[]; }};
layout(push_constant) uniform Parameters {{ uint first_row; }};
void main() {{
    if (gl_GlobalInvocationID.x >= {WIDTH}) return;
    uvec2 here = gl_GlobalInvocationID.xy;                      // rows of each device begin at 0
    vec2 c = 0.005 * (vec2(here.x, here.y + first_row) - vec2({0.7 * WIDTH}, {0.5 * (HEIGHT - 1)}));
    vec2 z = vec2(0);
    uint n = 0;
    for (; n < {STEPS} && dot(z, z) < 4; ++n) z = vec2(z.x * z.x - z.y * z.y, 2 * z.x * z.y) + c;
    steps[here.y * {WIDTH} + here.x] = n;
}}
"""

with vc.DeviceGroup() as group:  # all devices; or vc.DeviceGroup(["NVIDIA", "Intel"])
    kernel = group.kernel(vc.glsl(MANDELBROT, name="mandelbrot"))
    for _ in range(4):
        picture = group.empty((HEIGHT, WIDTH), np.uint32)  # sharded by the speeds measured so far
        with group.balance():
            kernel(picture, lambda rows: rows.start, grid=lambda rows: (WIDTH // 32, len(rows)))
        print("rows per device:", [len(rows) for rows in picture.rows])
    found = picture.numpy()

half = found[: HEIGHT // 2]
print(f"{np.mean(half == found[: HEIGHT // 2 - 1 : -1]):.0%} of the upper half mirrors the lower half")
for line in found[::40, ::16]:
    print("".join(" .:-=+*#%@"[min(9, n // 4)] for n in line))
