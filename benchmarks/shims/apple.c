/* Imitates the kernel driver of Apple's GPUs for Mesa's drm-shim: nothing runs.

   In the folder of a build of Mesa, with the header asahi_drm.h of Linux 6.16 or later in HEADER:

   cc -shared -fPIC -fvisibility=hidden -D_GNU_SOURCE -DHAVE_STRUCT_TIMESPEC -DHAVE_PTHREAD -I HEADER -I ../include \
      -I ../include/drm-uapi -I ../src -I /usr/include/libdrm -o src/asahi/drm-shim/libapple_shim.so apple.c \
      -Wl,--start-group src/drm-shim/libdrm_shim.a $(find src/util src/c11 -name '*.a') -Wl,--end-group -ldrm -lz \
      -lzstd -lm -pthread

   ASAHI_GENERATION is 13 for an M1, 14 for an M2. */

#include <stdlib.h>
#include <string.h>

#include "asahi_drm.h"
#include "drm-shim/drm_shim.h"

bool drm_shim_driver_prefers_first_render_node = true;

static int
get_params(int fd, unsigned long request, void *arg)
{
   struct drm_asahi_get_params *asked = arg;
   const char *generation = getenv("ASAHI_GENERATION");
   struct drm_asahi_params_global params = {
      .gpu_generation = generation ? atoi(generation) : 13,
      .gpu_variant = 'G',
      .num_dies = 1,
      .num_clusters_total = 1,
      .num_cores_per_cluster = 8,
      .max_frequency_khz = 1278000,
      .core_masks = {0xff},
      .vm_start = 0x4000,
      .vm_end = 1ull << 39,
      .vm_kernel_min_size = 1ull << 29,
      .max_commands_per_submission = 64,
      .max_attachments = 16,
      .command_timestamp_frequency_hz = 1000000000,
   };
   size_t n = asked->size < sizeof(params) ? asked->size : sizeof(params);
   memcpy((void *)(uintptr_t)asked->pointer, &params, n);
   asked->size = n;
   return asked->param_group;
}

static int
nothing(int fd, unsigned long request, void *arg)
{
   return 0;
}

static int
vm_create(int fd, unsigned long request, void *arg)
{
   ((struct drm_asahi_vm_create *)arg)->vm_id = 1;
   return 0;
}

static int
queue_create(int fd, unsigned long request, void *arg)
{
   ((struct drm_asahi_queue_create *)arg)->queue_id = 1;
   return 0;
}

static int
gem_create(int fd, unsigned long request, void *arg)
{
   struct drm_asahi_gem_create *create = arg;
   struct shim_bo *bo = calloc(1, sizeof(*bo));
   drm_shim_bo_init(bo, create->size);
   create->handle = drm_shim_bo_get_handle(drm_shim_fd_lookup(fd), bo);
   drm_shim_bo_put(bo);
   return 0;
}

static int
gem_mmap_offset(int fd, unsigned long request, void *arg)
{
   struct shim_fd *shim_fd = drm_shim_fd_lookup(fd);
   struct drm_asahi_gem_mmap_offset *map = arg;
   struct shim_bo *bo = drm_shim_bo_lookup(shim_fd, map->handle);
   map->offset = drm_shim_bo_get_mmap_offset(shim_fd, bo);
   drm_shim_bo_put(bo);
   return 0;
}

static ioctl_fn_t ioctls[] = {
   [DRM_ASAHI_GET_PARAMS] = get_params,   [DRM_ASAHI_GET_TIME] = nothing,
   [DRM_ASAHI_VM_CREATE] = vm_create,     [DRM_ASAHI_VM_DESTROY] = nothing,
   [DRM_ASAHI_VM_BIND] = nothing,         [DRM_ASAHI_GEM_CREATE] = gem_create,
   [DRM_ASAHI_GEM_MMAP_OFFSET] = gem_mmap_offset, [DRM_ASAHI_GEM_BIND_OBJECT] = nothing,
   [DRM_ASAHI_QUEUE_CREATE] = queue_create, [DRM_ASAHI_QUEUE_DESTROY] = nothing,
   [DRM_ASAHI_SUBMIT] = nothing,
};

void
drm_shim_driver_init(void)
{
   shim_device.bus_type = DRM_BUS_PLATFORM;
   shim_device.driver_name = "asahi";
   shim_device.driver_ioctls = ioctls;
   shim_device.driver_ioctl_count = sizeof(ioctls) / sizeof(ioctls[0]);
   drm_shim_override_file("DRIVER=asahi\nOF_FULLNAME=/soc/agx\nOF_COMPATIBLE_0=apple,agx-g13g\nOF_COMPATIBLE_N=1\n",
                          "/sys/dev/char/%d:%d/device/uevent", DRM_MAJOR, render_node_minor);
}
