"""Other people's clients, each a program that uses a server of ours.

    current.py MODE TRANSPORT WORD …     the Python SDK that we use ourselves
    earlier.py TRANSPORT WORD …          the Python SDK of the major before
    typescript.mjs TRANSPORT WORD …      the TypeScript SDK

The words are the command of a server, for ``stdio``, or the URL of one, for ``http``:
that of `tests.conformance.fixture`. Each goes the same way and prints what it saw as
one object of JSON.
"""
