"""Layer 3, campaigns: their participants, characters and sessions.

A campaign has participants (the GM and the players), characters (the tools and
resources call them actors, a word that means something else in this program) and
sessions, the evenings at the table.

`model` has the records, and `rules` the operations on them within one transaction of a
`store`; `sqlite` is such a store. `campaigns` puts them together. `context` remembers
the campaign that each client has chosen, `documents` are the texts to read at a URI,
and `tools` are the tools that clients get.
"""
