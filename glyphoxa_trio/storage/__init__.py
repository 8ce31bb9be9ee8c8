"""Layer 1, data that outlives a process: SQLite files, by APSW.

`database` is shared by all stores in files: it opens a file, migrates it, changes it in
transactions, and copies it. `measurements` is one such store; the host's `History` uses
its file, and rehearsals read it.

All of it blocks on the disk and must run in a worker thread. APSW has a mode of its own
for trio, but its thread cannot be abandoned: a disk that hangs would delay the end of
the process.

Only the modules that need APSW import it, so nothing else pays for that.
"""
