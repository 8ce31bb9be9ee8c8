"""The aviation ATIS of ``glyphoxa serve atis``: a weather report as spoken text.

`report` finds the report in what a feed says, `groups` reads it, `spoken` says it in
words; all three are pure. `settings` is what an aerodrome adds, `cache` when a feed is
asked, `feed` how; `keeper` owns both, and `tools` is what a client sees.
"""
