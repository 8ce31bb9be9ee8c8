"""One script per promise: what it costs, beside the same thing done bare.

    python -m benchmarks                    all of them, one table
    python -m benchmarks.fan_out --runs 5   one of them

`docs/performance.md` says how to read the figures, and
`docs/performance-figures.md` has them all.
"""
