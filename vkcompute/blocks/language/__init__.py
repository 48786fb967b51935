"""The functions of the block language. Each is expanded where a program calls it."""
