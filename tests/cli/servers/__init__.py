"""A server for tests, a program of its own; it is run, not imported."""
