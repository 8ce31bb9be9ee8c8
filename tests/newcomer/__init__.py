"""A newcomer's first use: other people's servers, and nothing arranged for them."""
