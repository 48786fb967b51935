"""Vulkan objects as Python objects with managed lifetimes: one noun per file, no policy."""
