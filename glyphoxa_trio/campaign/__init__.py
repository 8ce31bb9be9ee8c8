"""L3, campaigns: who plays in them, as whom, and when (seed 002).

A campaign has participants (the GM and the players), characters (what the tools and
resources call actors, a word that means something else in this program) and sessions,
the evenings at the table.

`model` is what there is, `rules` what may be done with it, over one transaction of a
`store`; `sqlite` is such a store. `campaigns` puts them together, `context` knows what
each client works on, `documents` what is read at a URI, `tools` what is offered.
"""
