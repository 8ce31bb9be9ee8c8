"""The tools that run in process; each module exports ``tools(...) -> list[Tool]``.

`dice`     ``roll`` and ``roll_table``: expressions, and tables to roll on.
`rules`    ``search_rules`` and ``get_rule``: the 5e SRD, or data sets of your own.
`files`    ``write_file`` and ``read_file``: text in one directory, and nowhere else.
`memory`   what was said and is known of a campaign: searches, and ``remember``.
`images`   ``generate_image``: by an image model, or as parchment cards.
`music`    ``play_track`` and ``stop_music``: from a folder of files.
`duality`  the Duality dice of Daggerheart.
`web`      ``search`` and ``fetch_page``.

Nothing is imported here, and importing a module reads no file: the constructors do,
once. The data they come with is in ``data/``.
"""
