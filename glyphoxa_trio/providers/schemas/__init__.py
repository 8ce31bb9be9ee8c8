"""The schemas of tools, in forms that the vendors of models accept. No I/O.

One keyword that a vendor does not take costs the whole request, and an NPC that has
such a tool would never answer. So each tool is brought into one of two forms, while
arguments are still validated against the original schema:

* `plain`: JSON Schema that all vendors take but Google.
* `gemini`: the subset of OpenAPI that Gemini takes.

Both follow references, join ``allOf`` and unite the forms of an object in the same way
(`flat`, `uniting`, `joining`). `keywords` has the keywords of one type for `gemini`,
`values` the types of foreign JSON.
"""
