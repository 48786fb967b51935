/* A Vulkan driver around another: to the loader, the validation layer and the program, a device with one queue becomes
 * a discrete GPU with eight queues of four families, and with memory of which the host sees some. What is submitted is
 * executed by the driver within, named in MANY_QUEUES_DRIVER, but as late and in as odd an order as its semaphores
 * allow: each submit waits here until somebody waits for its value, and of those that may go next, any is taken, the
 * newest more often. So a semaphore or a wait of the host's that is missing shows in the results, each time.
 *
 * With MANY_QUEUES_PACE="NS_PER_KIB,NS_PER_GROUP" it shows what overlaps instead: each queue is a thread that takes its
 * submits in order, sleeps for as long as their copies of buffers and their workgroups are to take, and hands them on
 * then. The queues that compute share an engine, those that only copy have one each, and an engine that sleeps needs no
 * processor.
 *
 * For compute with timeline semaphores, as vkcompute uses them; the host is taken to signal none of them. Ownership of
 * buffers is not followed, which the validation layer does not do either: a buffer that only one queue family at a time
 * may use gets no memory where the device has queues of several.
 * Types come from the binding's own header, so no Vulkan headers are needed:
 *   cc -shared -fPIC -pthread -I <site-packages>/vulkan driver.c -o libmany_queues.so -ldl
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define va_list vulkan_va_list /* which the header defines in a way of its own */
#include "vulkan.cdef.h"
#undef va_list

#define EXPORT __attribute__((visibility("default")))
#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define LOADER_MAGIC 0x01CDC0DE /* first word of a dispatchable object, which the loader replaces (ICD_LOADER_MAGIC) */
#define INTERFACE_VERSION 5

static const VkQueueFamilyProperties families[] = {
    {VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT, 1, 64, {1, 1, 1}},
    {VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT, 4, 64, {1, 1, 1}},
    {VK_QUEUE_TRANSFER_BIT, 2, 64, {1, 1, 1}},
    {VK_QUEUE_TRANSFER_BIT | VK_QUEUE_VIDEO_DECODE_BIT_KHR, 1, 0, {1, 1, 1}},
};
enum { MOST_PER_FAMILY = 4, N_QUEUES = LENGTH(families) * MOST_PER_FAMILY, LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT };
enum { SEEN = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT };
/* All are the inner driver's type 0, on heaps as large as its own. */
static const VkMemoryType types[] = {
    {0, 1}, {LOCAL, 0}, {SEEN, 1}, {SEEN | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 1}, {LOCAL | SEEN, 0},
};

typedef struct Submit {
    struct Submit *next;
    uint64_t number; /* in the order of the calls */
    uint32_t n_waits, n_signals, n_buffers;
    VkSemaphore *waits, *signals;
    uint64_t *wait_values, *signal_values;
    VkPipelineStageFlags *stages;
    VkCommandBuffer *buffers;
    VkFence fence; /* of the call, on its last submit */
} Submit;

typedef struct {
    uintptr_t loader;
    Submit *first, **end;
    struct Device *device;
    pthread_t thread; /* where it has one */
} Queue;

typedef struct Device {
    struct Device *next;
    int closing;
    VkDevice inner;
    VkQueue queue;
    uint32_t n_families; /* with queues in use */
    Queue queues[N_QUEUES];
} Device;

typedef struct Known {
    struct Known *next;
    void *object;
    uint64_t value; /* of a semaphore: what submits handed on have signalled, or will once they have run */
} Known;

static struct {
    int given;
    double ns_per_byte, ns_per_group;
} pace;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static PFN_vkGetInstanceProcAddr inner_instance;
/* The inner driver's functions that are the same for all instances and devices. */
static struct {
    PFN_vkCreateDevice vkCreateDevice;
    PFN_vkGetDeviceProcAddr vkGetDeviceProcAddr;
    PFN_vkGetPhysicalDeviceProperties vkGetPhysicalDeviceProperties;
    PFN_vkGetPhysicalDeviceProperties2 vkGetPhysicalDeviceProperties2;
    PFN_vkGetPhysicalDeviceMemoryProperties vkGetPhysicalDeviceMemoryProperties;
    PFN_vkGetPhysicalDeviceMemoryProperties2 vkGetPhysicalDeviceMemoryProperties2;
    PFN_vkBeginCommandBuffer vkBeginCommandBuffer;
    PFN_vkCmdCopyBuffer vkCmdCopyBuffer;
    PFN_vkCmdDispatch vkCmdDispatch;
    PFN_vkCmdDispatchBase vkCmdDispatchBase;
} inner;
static Device *devices;
static Known *known;
static uint32_t chance = 1;

#define INNER(device, name) ((PFN_##name)inner.vkGetDeviceProcAddr(device, #name))

static uint64_t *value_of(void *object) {
    Known *each = known;
    while (each && each->object != object) each = each->next;
    if (!each) {
        each = calloc(1, sizeof *each);
        each->next = known, each->object = object;
        known = each;
    }
    return &each->value;
}

static Device *device_of(VkDevice inner) {
    Device *each = devices;
    while (each->inner != inner) each = each->next;
    return each;
}

/* ---- submits: held back, and handed on ------------------------------------------------------------------------- */

static void *copied(const void *items, size_t n_bytes) {
    void *copy = calloc(1, n_bytes + 1);
    if (n_bytes) memcpy(copy, items, n_bytes);
    return copy;
}

#define COPIED(items, n) copied(items, (n) * sizeof *(items))

static Submit *hold(const VkSubmitInfo *info) {
    const VkTimelineSemaphoreSubmitInfo *times = info->pNext;
    while (times && times->sType != VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO) times = times->pNext;
    static uint64_t n_submits;
    Submit *submit = calloc(1, sizeof *submit);
    submit->number = ++n_submits;
    submit->n_waits = info->waitSemaphoreCount, submit->n_signals = info->signalSemaphoreCount;
    submit->n_buffers = info->commandBufferCount;
    submit->waits = COPIED(info->pWaitSemaphores, submit->n_waits);
    submit->stages = COPIED(info->pWaitDstStageMask, submit->n_waits);
    submit->wait_values = COPIED(times->pWaitSemaphoreValues, submit->n_waits);
    submit->signals = COPIED(info->pSignalSemaphores, submit->n_signals);
    submit->signal_values = COPIED(times->pSignalSemaphoreValues, submit->n_signals);
    submit->buffers = COPIED(info->pCommandBuffers, submit->n_buffers);
    return submit;
}

static int may_go(const Submit *submit) {
    for (uint32_t i = 0; submit && i < submit->n_waits; i++)
        if (*value_of(submit->waits[i]) < submit->wait_values[i]) return 0;
    return submit != NULL;
}

static VkResult hand_on(Device *device, Queue *queue) {
    Submit *submit = queue->first;
    VkTimelineSemaphoreSubmitInfo times = {
        VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, NULL,
        submit->n_waits, submit->wait_values, submit->n_signals, submit->signal_values,
    };
    VkSubmitInfo info = {
        VK_STRUCTURE_TYPE_SUBMIT_INFO, &times, submit->n_waits, submit->waits, submit->stages,
        submit->n_buffers, submit->buffers, submit->n_signals, submit->signals,
    };
    VkResult result = INNER(device->inner, vkQueueSubmit)(device->queue, 1, &info, submit->fence);
    for (uint32_t i = 0; i < submit->n_signals; i++) *value_of(submit->signals[i]) = submit->signal_values[i];
    queue->first = submit->next;
    if (!queue->first) queue->end = &queue->first;
    free(submit->waits), free(submit->stages), free(submit->wait_values);
    free(submit->signals), free(submit->signal_values), free(submit->buffers), free(submit);
    return result;
}

static uint32_t any_of(uint32_t n) {
    chance = chance * 1664525 + 1013904223; /* Numerical Recipes' linear congruential generator */
    return (chance >> 16) % n;
}

/* Hands one of those submits on that may go, three times of four the newest; 0 where there is none. */
static int any_goes(Device *device) {
    Queue *able[N_QUEUES], *chosen;
    int n_able = 0;
    for (size_t i = 0; i < N_QUEUES; i++)
        if (may_go(device->queues[i].first)) able[n_able++] = &device->queues[i];
    if (!n_able) return 0;
    chosen = able[any_of(n_able)];
    if (any_of(4))
        for (int i = 0; i < n_able; i++)
            if (able[i]->first->number > chosen->first->number) chosen = able[i];
    return hand_on(device, chosen) == VK_SUCCESS;
}

/* ---- engines that take their time ---------------------------------------------------------------------------------- */

/* What a command buffer takes. Objects are aligned, so behind a handle is none whose value this could be. */
static uint64_t *ns_of(VkCommandBuffer buffer) { return value_of((char *)buffer + 1); }

static void add_ns(VkCommandBuffer buffer, double ns) {
    pthread_mutex_lock(&lock);
    *ns_of(buffer) += (uint64_t)ns;
    pthread_mutex_unlock(&lock);
}

static uint64_t take_ns(const Submit *submit) {
    uint64_t ns = 0;
    for (uint32_t i = 0; i < submit->n_buffers; i++) ns += *ns_of(submit->buffers[i]);
    return ns;
}

static VkResult begin_command_buffer(VkCommandBuffer buffer, const VkCommandBufferBeginInfo *info) {
    pthread_mutex_lock(&lock);
    *ns_of(buffer) = 0;
    pthread_mutex_unlock(&lock);
    return inner.vkBeginCommandBuffer(buffer, info);
}

static void copy_buffer(VkCommandBuffer buffer, VkBuffer from, VkBuffer to, uint32_t n, const VkBufferCopy *regions) {
    for (uint32_t i = 0; i < n; i++) add_ns(buffer, regions[i].size * pace.ns_per_byte);
    inner.vkCmdCopyBuffer(buffer, from, to, n, regions);
}

static void dispatch(VkCommandBuffer buffer, uint32_t x, uint32_t y, uint32_t z) {
    add_ns(buffer, (double)x * y * z * pace.ns_per_group);
    inner.vkCmdDispatch(buffer, x, y, z);
}

static void dispatch_base(
    VkCommandBuffer buffer, uint32_t first_x, uint32_t first_y, uint32_t first_z, uint32_t x, uint32_t y, uint32_t z
) {
    add_ns(buffer, (double)x * y * z * pace.ns_per_group);
    inner.vkCmdDispatchBase(buffer, first_x, first_y, first_z, x, y, z);
}

static void *run(void *given) {
    static pthread_mutex_t computing = PTHREAD_MUTEX_INITIALIZER;
    Queue *queue = given;
    int computes = families[(queue - queue->device->queues) / MOST_PER_FAMILY].queueFlags & VK_QUEUE_COMPUTE_BIT;
    pthread_mutex_lock(&lock);
    while (!queue->device->closing) {
        if (!may_go(queue->first)) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        uint64_t ns = take_ns(queue->first);
        struct timespec time = {ns / 1000000000, ns % 1000000000};
        pthread_mutex_unlock(&lock);
        if (computes) pthread_mutex_lock(&computing);
        nanosleep(&time, NULL);
        if (computes) pthread_mutex_unlock(&computing);
        pthread_mutex_lock(&lock);
        hand_on(queue->device, queue);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int is_busy(const Device *device) {
    for (size_t i = 0; i < N_QUEUES; i++)
        if (device->queues[i].first) return 1;
    return 0;
}

static void end_threads(Device *device) {
    device->closing = 1;
    pthread_cond_broadcast(&changed);
    for (size_t i = 0; i < N_QUEUES; i++) {
        pthread_t thread = device->queues[i].thread;
        pthread_mutex_unlock(&lock);
        if (thread) pthread_join(thread, NULL);
        pthread_mutex_lock(&lock);
    }
}

/* ---- what the program calls ---------------------------------------------------------------------------------------- */

static VkResult queue_submit(VkQueue handle, uint32_t n, const VkSubmitInfo *infos, VkFence fence) {
    Queue *queue = (Queue *)handle;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n; i++) {
        *queue->end = hold(&infos[i]);
        if (i + 1 == n) (*queue->end)->fence = fence;
        queue->end = &(*queue->end)->next;
    }
    if (pace.given && !queue->thread) pthread_create(&queue->thread, NULL, run, queue);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return VK_SUCCESS;
}

static VkResult wait_semaphores(VkDevice handle, const VkSemaphoreWaitInfo *info, uint64_t timeout) {
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < info->semaphoreCount && !pace.given; i++)
        while (*value_of(info->pSemaphores[i]) < info->pValues[i] && any_goes(device_of(handle))) {}
    pthread_mutex_unlock(&lock);
    return INNER(handle, vkWaitSemaphores)(handle, info, timeout);
}

static VkResult get_semaphore_counter_value(VkDevice handle, VkSemaphore semaphore, uint64_t *value) {
    pthread_mutex_lock(&lock);
    if (!pace.given && !any_of(16)) any_goes(device_of(handle)); /* so that whoever only asks gets there */
    pthread_mutex_unlock(&lock);
    return INNER(handle, vkGetSemaphoreCounterValue)(handle, semaphore, value);
}

static VkResult device_wait_idle(VkDevice handle) {
    pthread_mutex_lock(&lock);
    while (pace.given ? is_busy(device_of(handle)) : any_goes(device_of(handle)))
        if (pace.given) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return INNER(handle, vkDeviceWaitIdle)(handle);
}

static VkResult queue_wait_idle(VkQueue handle) { return device_wait_idle(((Queue *)handle)->device->inner); }

static void destroy_semaphore(VkDevice handle, VkSemaphore semaphore, const VkAllocationCallbacks *callbacks) {
    pthread_mutex_lock(&lock);
    *value_of(semaphore) = 0; /* another one may get the handle */
    pthread_mutex_unlock(&lock);
    INNER(handle, vkDestroySemaphore)(handle, semaphore, callbacks);
}

/* ---- devices, queues and families ------------------------------------------------------------------------------ */

static VkResult create_device(
    VkPhysicalDevice physical, const VkDeviceCreateInfo *info, const VkAllocationCallbacks *callbacks, VkDevice *made
) {
    float priority = 1;
    VkDeviceQueueCreateInfo one = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, 0, 1, &priority};
    VkDeviceCreateInfo with_one = *info;
    with_one.queueCreateInfoCount = 1, with_one.pQueueCreateInfos = &one;
    VkResult result = inner.vkCreateDevice(physical, &with_one, callbacks, made);
    if (result != VK_SUCCESS) return result;
    Device *device = calloc(1, sizeof *device);
    device->inner = *made, device->n_families = info->queueCreateInfoCount;
    for (Queue *each = device->queues; each < device->queues + N_QUEUES; each++)
        each->loader = LOADER_MAGIC, each->end = &each->first, each->device = device;
    INNER(*made, vkGetDeviceQueue)(*made, 0, 0, &device->queue);
    pthread_mutex_lock(&lock);
    device->next = devices, devices = device;
    pthread_mutex_unlock(&lock);
    return result;
}

static void destroy_device(VkDevice handle, const VkAllocationCallbacks *callbacks) {
    if (!handle) return;
    PFN_vkDestroyDevice destroy = INNER(handle, vkDestroyDevice);
    pthread_mutex_lock(&lock);
    Device **place = &devices, *device = device_of(handle);
    end_threads(device);
    while (*place != device) place = &(*place)->next;
    *place = device->next;
    pthread_mutex_unlock(&lock);
    free(device);
    destroy(handle, callbacks);
}

static void get_device_queue(VkDevice handle, uint32_t family, uint32_t index, VkQueue *found) {
    pthread_mutex_lock(&lock);
    *found = (VkQueue)&device_of(handle)->queues[family * MOST_PER_FAMILY + index];
    pthread_mutex_unlock(&lock);
}

static VkResult create_command_pool(
    VkDevice handle, const VkCommandPoolCreateInfo *info, const VkAllocationCallbacks *callbacks, VkCommandPool *pool
) {
    VkCommandPoolCreateInfo of_the_one = *info;
    of_the_one.queueFamilyIndex = 0;
    return INNER(handle, vkCreateCommandPool)(handle, &of_the_one, callbacks, pool);
}

static void queue_families(VkPhysicalDevice physical, uint32_t *n, VkQueueFamilyProperties *found) {
    if (found) {
        if (*n > LENGTH(families)) *n = LENGTH(families);
        memcpy(found, families, *n * sizeof *found);
    } else {
        *n = LENGTH(families);
    }
}

static void queue_families_2(VkPhysicalDevice physical, uint32_t *n, VkQueueFamilyProperties2 *found) {
    queue_families(physical, n, NULL);
    for (uint32_t i = 0; found && i < *n; i++) found[i].queueFamilyProperties = families[i];
}

static void properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *found) {
    inner.vkGetPhysicalDeviceProperties(physical, found);
    found->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

static void properties_2(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *found) {
    inner.vkGetPhysicalDeviceProperties2(physical, found);
    found->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void reshape(VkPhysicalDeviceMemoryProperties *found) {
    found->memoryTypeCount = LENGTH(types), found->memoryHeapCount = 2;
    memcpy(found->memoryTypes, types, sizeof types);
    found->memoryHeaps[1] = found->memoryHeaps[0];
    found->memoryHeaps[1].flags = 0;
}

static void memory(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *found) {
    inner.vkGetPhysicalDeviceMemoryProperties(physical, found);
    reshape(found);
}

static void memory_2(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties2 *found) {
    inner.vkGetPhysicalDeviceMemoryProperties2(physical, found);
    reshape(&found->memoryProperties);
    for (VkPhysicalDeviceMemoryBudgetPropertiesEXT *each = found->pNext; each; each = each->pNext)
        if (each->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT)
            each->heapBudget[1] = each->heapBudget[0], each->heapUsage[1] = each->heapUsage[0];
}

static VkResult allocate_memory(
    VkDevice handle, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *callbacks, VkDeviceMemory *made
) {
    VkMemoryAllocateInfo of_the_one = *info;
    of_the_one.memoryTypeIndex = 0;
    return INNER(handle, vkAllocateMemory)(handle, &of_the_one, callbacks, made);
}

static VkResult create_buffer(
    VkDevice handle, const VkBufferCreateInfo *info, const VkAllocationCallbacks *callbacks, VkBuffer *made
) {
    VkResult result = INNER(handle, vkCreateBuffer)(handle, info, callbacks, made);
    if (result == VK_SUCCESS && info->sharingMode == VK_SHARING_MODE_EXCLUSIVE) {
        pthread_mutex_lock(&lock);
        *value_of(*made) = device_of(handle)->n_families > 1; /* by more than may use it */
        pthread_mutex_unlock(&lock);
    }
    return result;
}

static void destroy_buffer(VkDevice handle, VkBuffer buffer, const VkAllocationCallbacks *callbacks) {
    pthread_mutex_lock(&lock);
    *value_of(buffer) = 0;
    pthread_mutex_unlock(&lock);
    INNER(handle, vkDestroyBuffer)(handle, buffer, callbacks);
}

static VkResult bind_buffer_memory(VkDevice handle, VkBuffer buffer, VkDeviceMemory memory, VkDeviceSize offset) {
    pthread_mutex_lock(&lock);
    uint64_t exclusive = *value_of(buffer);
    pthread_mutex_unlock(&lock);
    if (exclusive) {
        fprintf(stderr, "a buffer of one queue family gets memory on a device with queues of several\n");
        return VK_ERROR_FEATURE_NOT_PRESENT;
    }
    return INNER(handle, vkBindBufferMemory)(handle, buffer, memory, offset);
}

#define REQUIREMENTS(function, name, Asked, Found, bits)               \
    static void function(VkDevice handle, Asked asked, Found *found) { \
        INNER(handle, name)(handle, asked, found);                     \
        bits = (1u << LENGTH(types)) - 1;                              \
    }
REQUIREMENTS(of_buffer, vkGetBufferMemoryRequirements, VkBuffer, VkMemoryRequirements, found->memoryTypeBits)
REQUIREMENTS(of_image, vkGetImageMemoryRequirements, VkImage, VkMemoryRequirements, found->memoryTypeBits)
REQUIREMENTS(
    of_buffer_2, vkGetBufferMemoryRequirements2, const VkBufferMemoryRequirementsInfo2 *, VkMemoryRequirements2,
    found->memoryRequirements.memoryTypeBits
)
REQUIREMENTS(
    of_image_2, vkGetImageMemoryRequirements2, const VkImageMemoryRequirementsInfo2 *, VkMemoryRequirements2,
    found->memoryRequirements.memoryTypeBits
)

/* ---- the loader's way in ------------------------------------------------------------------------------------------ */

static PFN_vkVoidFunction get_device(VkDevice handle, const char *name);

static VkResult create_instance(
    const VkInstanceCreateInfo *info, const VkAllocationCallbacks *callbacks, VkInstance *made
) {
    VkResult result = ((PFN_vkCreateInstance)inner_instance(NULL, "vkCreateInstance"))(info, callbacks, made);
    if (result != VK_SUCCESS) return result;
#define FIND(name) inner.name = (PFN_##name)inner_instance(*made, #name)
    FIND(vkCreateDevice), FIND(vkGetDeviceProcAddr);
    FIND(vkGetPhysicalDeviceProperties), FIND(vkGetPhysicalDeviceProperties2);
    FIND(vkGetPhysicalDeviceMemoryProperties), FIND(vkGetPhysicalDeviceMemoryProperties2);
    FIND(vkBeginCommandBuffer), FIND(vkCmdCopyBuffer), FIND(vkCmdDispatch), FIND(vkCmdDispatchBase);
    return result;
}

static const struct {
    const char *name;
    PFN_vkVoidFunction function;
} ours[] = {
#define OURS(name, function) {#name, (PFN_vkVoidFunction)function}
    OURS(vkCreateInstance, create_instance),
    OURS(vkGetDeviceProcAddr, get_device),
    OURS(vkCreateDevice, create_device),
    OURS(vkDestroyDevice, destroy_device),
    OURS(vkGetPhysicalDeviceProperties, properties),
    OURS(vkGetPhysicalDeviceProperties2, properties_2),
    OURS(vkGetPhysicalDeviceProperties2KHR, properties_2),
    OURS(vkGetPhysicalDeviceQueueFamilyProperties, queue_families),
    OURS(vkGetPhysicalDeviceQueueFamilyProperties2, queue_families_2),
    OURS(vkGetPhysicalDeviceQueueFamilyProperties2KHR, queue_families_2),
    OURS(vkGetPhysicalDeviceMemoryProperties, memory),
    OURS(vkGetPhysicalDeviceMemoryProperties2, memory_2),
    OURS(vkGetPhysicalDeviceMemoryProperties2KHR, memory_2),
    OURS(vkGetDeviceQueue, get_device_queue),
    OURS(vkCreateCommandPool, create_command_pool),
    OURS(vkAllocateMemory, allocate_memory),
    OURS(vkCreateBuffer, create_buffer),
    OURS(vkDestroyBuffer, destroy_buffer),
    OURS(vkBindBufferMemory, bind_buffer_memory),
    OURS(vkGetBufferMemoryRequirements, of_buffer),
    OURS(vkGetImageMemoryRequirements, of_image),
    OURS(vkGetBufferMemoryRequirements2, of_buffer_2),
    OURS(vkGetImageMemoryRequirements2, of_image_2),
    OURS(vkQueueSubmit, queue_submit),
    OURS(vkQueueWaitIdle, queue_wait_idle),
    OURS(vkDeviceWaitIdle, device_wait_idle),
    OURS(vkWaitSemaphores, wait_semaphores),
    OURS(vkGetSemaphoreCounterValue, get_semaphore_counter_value),
    OURS(vkDestroySemaphore, destroy_semaphore),
    OURS(vkBeginCommandBuffer, begin_command_buffer),
    OURS(vkCmdCopyBuffer, copy_buffer),
    OURS(vkCmdDispatch, dispatch),
    OURS(vkCmdDispatchBase, dispatch_base),
};

static PFN_vkVoidFunction ours_or(const char *name, PFN_vkVoidFunction inner) {
    for (size_t i = 0; inner && i < LENGTH(ours); i++)
        if (!strcmp(name, ours[i].name)) return ours[i].function;
    return inner;
}

static PFN_vkVoidFunction get_device(VkDevice handle, const char *name) {
    return ours_or(name, inner.vkGetDeviceProcAddr(handle, name));
}

EXPORT PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance which, const char *name) {
    return ours_or(name, inner_instance(which, name));
}

EXPORT VkResult vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
    const char *path = getenv("MANY_QUEUES_DRIVER"), *asked = getenv("MANY_QUEUES_PACE");
    pace.given = asked && sscanf(asked, "%lf,%lf", &pace.ns_per_byte, &pace.ns_per_group) == 2;
    pace.ns_per_byte /= 1024;
    if (asked && !pace.given) {
        fprintf(stderr, "MANY_QUEUES_PACE=%s is not two numbers with a comma between\n", asked);
        return VK_ERROR_INCOMPATIBLE_DRIVER;
    }
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "MANY_QUEUES_DRIVER=%s: %s\n", path ? path : "", path ? dlerror() : "it is to name a driver");
        return VK_ERROR_INCOMPATIBLE_DRIVER;
    }
    if (*version > INTERFACE_VERSION) *version = INTERFACE_VERSION;
    VkResult (*negotiate)(uint32_t *) = dlsym(library, "vk_icdNegotiateLoaderICDInterfaceVersion");
    inner_instance = dlsym(library, "vk_icdGetInstanceProcAddr");
    return inner_instance && negotiate ? negotiate(version) : VK_ERROR_INCOMPATIBLE_DRIVER;
}
