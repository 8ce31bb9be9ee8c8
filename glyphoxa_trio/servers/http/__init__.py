"""``glyphoxa serve NAME --transport http``: MCP's streamable HTTP transport.

`serving` listens, and stops in order; `app` is the ASGI application that it serves. In
front stands `gateway`, the gateway: it checks who may come in, and fills in what
lenient clients leave out. Behind it the SDK's own session loop, one for each of
`sessions`, calls our `Dispatch` through `bridge`. `events` keeps the Server-Sent Events
that a client may ask for again after its connection broke.

Nothing is imported here, so that nothing of this is loaded for a server on stdio.
"""
