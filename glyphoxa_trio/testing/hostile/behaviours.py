"""Importing this module registers every behaviour."""

from __future__ import annotations

from . import answers, asks, ends, heavy, lists, pipes, schemas, shapes, starts
from .family import BEHAVIOURS

__all__ = [
    "BEHAVIOURS",
    "answers",
    "asks",
    "ends",
    "heavy",
    "lists",
    "pipes",
    "schemas",
    "shapes",
    "starts",
]
