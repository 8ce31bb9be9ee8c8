"""L1, what outlives a process: SQLite files, by APSW.

`database` is what every store in a file shares: open, bring up to date, change as a
whole, copy. `measurements` is one such store; its file is used by the host's
`History`, and read by whoever rehearses with what was measured.

All of it blocks on the disk, so it belongs into a worker thread of trio's. APSW has
a mode of its own for trio, whose thread cannot be left to itself: a disk that hangs
would hold up the end of the process.

APSW is imported by the modules that need it, so whoever does without pays nothing.
"""
