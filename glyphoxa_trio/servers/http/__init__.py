"""``glyphoxa serve NAME --transport http``: MCP's streamable HTTP, with Server-Sent
Events.

`serving` listens and stops in order; `app` is what it serves. In front is `shim`,
which lets in who may come and makes up for what lenient clients leave out; behind
it the SDK's own session loop, one for each of `sessions`, asks our `Dispatch`
through `bridge`. `events` remembers what a client may want to hear again.

Nothing is imported here: over stdio none of this is loaded.
"""
