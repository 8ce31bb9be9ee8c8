"""Layer 3, the use of memory: what NPCs remember in a turn, and what is kept of it.

`keeping` writes turns into the journal and brings sessions back; `context` adds to the
prompt of a turn; `names` finds the names of a campaign in what is said; `afterwards`
summarises evenings and extracts facts; `embedding` keeps the semantic index complete.
"""
