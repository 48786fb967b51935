"""The device functions that the core calls, fetched once per device so that no loader trampoline lies between."""

DEVICE_FUNCTIONS = tuple(
    """
    vkDestroyDevice vkGetDeviceQueue vkDeviceWaitIdle vkQueueSubmit
    vkCreateSemaphore vkDestroySemaphore vkGetSemaphoreCounterValue vkWaitSemaphores
    vkAllocateMemory vkFreeMemory vkMapMemory vkCreateBuffer vkDestroyBuffer vkBindBufferMemory
    vkGetBufferMemoryRequirements vkCreateBufferView vkDestroyBufferView
    vkCreateShaderModule vkDestroyShaderModule vkCreatePipelineLayout vkDestroyPipelineLayout
    vkCreateComputePipelines vkDestroyPipeline
    vkCreatePipelineCache vkDestroyPipelineCache vkGetPipelineCacheData
    vkCreateDescriptorSetLayout vkDestroyDescriptorSetLayout vkCreateDescriptorPool vkDestroyDescriptorPool
    vkAllocateDescriptorSets vkUpdateDescriptorSets
    vkCreateCommandPool vkDestroyCommandPool vkAllocateCommandBuffers
    vkBeginCommandBuffer vkEndCommandBuffer vkResetCommandBuffer
    vkCmdBindPipeline vkCmdBindDescriptorSets vkCmdPushConstants
    vkCmdDispatch vkCmdCopyBuffer vkCmdFillBuffer vkCmdPipelineBarrier vkCmdWriteTimestamp
    vkCreateQueryPool vkDestroyQueryPool vkGetQueryPoolResults vkResetQueryPool
    vkGetCalibratedTimestampsEXT vkGetCalibratedTimestampsKHR
    """.split()
)
