"""The operator's page names each state and status, and quotes what the program says."""

from __future__ import annotations

import re
from pathlib import Path

from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.npc import Fallback
from glyphoxa_trio.providers.llm import ErrorKind

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "failures.md").read_text()
SOURCE = "\n".join(
    p.read_text() for p in sorted((ROOT / "glyphoxa_trio").rglob("*.py"))
)


def test_every_state_and_every_kind_of_failure_has_its_row() -> None:
    missing = [
        str(member)
        for kind in (ServerState, ErrorKind, Fallback)
        for member in kind
        if f"`{member}`" not in PAGE
    ]
    # The line for a model that failed is in every row of its table.
    assert missing == ["model_failed"]


# What somebody will search for: it has to be what the program says.
SAID = [
    "was ended by ",
    "exited with status ",
    "no handshake within ",
    "no list of tools within ",
    "cannot be started: ",
    "it does not read its input",
    "closed its stdin",
    "closed its stdout",
    "it wrote a line of more than ",
    "its answer is not usable: ",
    "has failed, and is ",
    "retried once a minute",
    "not retried",
    "was not sent",
    "the session has ended",
    "cannot connect: ",
    "no complete answer: ",
    "timed out",
    "the token endpoint cannot be reached: ",
    "the token endpoint refused: ",
    "its changed list of tools cannot be read: ",
    " exposed as ",
    "renamed since approved",
    "has changed since it was approved",
    "it failed repeatedly, ",
    "not stop",
    "not reloaded, the old one goes on: ",
    "new turns are refused: ",
]


def test_what_it_quotes_is_what_the_program_says() -> None:
    page = " ".join(PAGE.split())
    source = re.sub(r'"\s*f?"', "", SOURCE)  # texts that go on in the next line
    for text in SAID:
        assert text.strip() in page, text
        assert text in source, text
