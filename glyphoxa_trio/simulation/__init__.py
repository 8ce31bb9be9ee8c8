"""L5: rehearsals. The production code on virtual time, in a world that is made up.

`virtual` is the clock and the order of tasks, `fake_world` the servers and tools.
"""
