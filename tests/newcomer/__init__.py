"""A stranger's evening: other people's servers, and nothing arranged for them."""
