"""One Vulkan noun per file, no policy: what a driver offers, as Python objects that know when to end."""
