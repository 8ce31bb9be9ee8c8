"""The aviation ATIS of ``glyphoxa serve atis``: a weather report as spoken text.

`report` finds the report in the text of a feed, `groups` and `values` parse it into
`weather`, and `spoken`, `phrases` and `words` put it into words; all of them are pure.
`settings` is the data that an operator adds for an aerodrome, and `config_file` reads
its file. `cache` decides when to ask a feed (pure, too), and `feed` asks it; `keeper`
owns both. `tools` and `resources` are the part that clients see.
"""
