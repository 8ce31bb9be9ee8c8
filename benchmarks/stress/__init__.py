"""The common part of the stress benchmarks: a model, players, and a leak check."""
