"""The aviation ATIS of ``glyphoxa serve atis``: a weather report as spoken text.

`report` finds the report in what a feed says, `groups` and `values` read it into
`weather`, `spoken`, `phrases` and `words` say it; all of them are pure. `settings` is
what an aerodrome adds, and `config_file` its file. `cache` says when a feed is asked
(pure, too), `feed` asks it; `keeper` owns both, and `tools` and `resources` are what a
client sees.
"""
