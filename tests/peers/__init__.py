"""Other people's servers, pinned, over real transports (N28)."""
