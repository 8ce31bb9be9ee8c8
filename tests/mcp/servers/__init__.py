"""Servers for tests: programs of their own, run by path, never imported."""
