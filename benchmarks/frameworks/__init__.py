"""Voice frameworks with our NPCs and with their own models, each in its own Python."""
