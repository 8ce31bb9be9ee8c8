"""The programs that serve: ``glyphoxa serve``, and a Python file with tools."""
