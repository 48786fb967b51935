"""The device functions that the core calls, fetched once per device so that no loader trampoline lies between."""

DEVICE_FUNCTIONS = tuple(
    """
    vkDestroyDevice vkGetDeviceQueue vkDeviceWaitIdle vkQueueSubmit
    vkCreateSemaphore vkDestroySemaphore vkGetSemaphoreCounterValue vkWaitSemaphores vkSignalSemaphore
    vkAllocateMemory vkFreeMemory vkMapMemory vkCreateBuffer vkDestroyBuffer vkBindBufferMemory
    vkGetBufferMemoryRequirements vkCreateBufferView vkDestroyBufferView
    vkCreateShaderModule vkDestroyShaderModule vkCreatePipelineLayout vkDestroyPipelineLayout
    vkCreateComputePipelines vkDestroyPipeline
    vkCreatePipelineCache vkDestroyPipelineCache vkGetPipelineCacheData
    vkCreateDescriptorSetLayout vkDestroyDescriptorSetLayout vkCreateDescriptorPool vkDestroyDescriptorPool
    vkAllocateDescriptorSets vkFreeDescriptorSets vkUpdateDescriptorSets
    vkCreateCommandPool vkDestroyCommandPool vkAllocateCommandBuffers vkFreeCommandBuffers
    vkBeginCommandBuffer vkEndCommandBuffer vkCmdBindPipeline vkCmdBindDescriptorSets vkCmdPushConstants
    vkCmdDispatch vkCmdCopyBuffer vkCmdFillBuffer vkCmdPipelineBarrier vkCmdWriteTimestamp
    vkCreateQueryPool vkDestroyQueryPool vkGetQueryPoolResults vkResetQueryPool
    """.split()
)
