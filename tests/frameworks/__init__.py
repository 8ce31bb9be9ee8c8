"""Other people's frameworks use what is here; each has a Python of its own."""
