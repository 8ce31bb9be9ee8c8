"""Workers that are killed while players speak with them, on links that break.

`faults` kills, stops, cuts and restarts, `tables` are the players, who judge each
answer, and `judge` looks at what is left. `run` puts all of it together.
"""
