"""Policy over the core: what waits for what, which queue runs it, what a tensor is."""
