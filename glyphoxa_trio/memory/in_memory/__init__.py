"""A memory store in this process, without a file: the model for tests of the others."""

from .store import InMemory as InMemory
