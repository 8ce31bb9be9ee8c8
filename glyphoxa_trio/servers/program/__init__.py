"""The programs that serve: ``glyphoxa serve``, and a file of somebody's own tools."""
