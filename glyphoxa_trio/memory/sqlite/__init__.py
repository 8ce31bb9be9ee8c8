"""A memory store in an SQLite file."""
