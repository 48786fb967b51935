"""SPIR-V as data: words to modules and back, what a module declares, whether it is well formed. No Vulkan."""
