"""What the stress benchmarks share: a model that talks, guests, and what is left."""
