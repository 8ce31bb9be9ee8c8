"""Turns with a real, small model: ``make model``. Not a part of ``make test``."""
