"""The version, in the one place that the build and `import vkcompute` read."""

__version__ = "0.1.0"
