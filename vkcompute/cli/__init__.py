"""The `vkcompute` command."""
