"""Writes campaigns until it dies at a given operation on the disk.

    python -m tests.campaign.killed PATH FIRST LAST

One process after the other on the same file, each with a campaign of its own, which
dies at the FIRST to the LAST operation; half of the writes are half done then. After
each it prints the campaign and how many of its actors were acknowledged.
"""

from __future__ import annotations

import os
import sys
import traceback
from functools import partial
from pathlib import Path

from glyphoxa_trio.campaign.rules import create_campaign, create_character
from glyphoxa_trio.campaign.sqlite import SqliteFile
from glyphoxa_trio.campaign.stamps import Timestamp, rfc3339
from glyphoxa_trio.campaign.store import Records
from tests.storage.killed import ENDS_WELL, Dying, say

ACTORS = 6


def write_some(path: Path, point: int, told: int) -> None:
    file = SqliteFile.open(path)
    moment = Timestamp(1e9, rfc3339(1e9), lambda prefix: f"{prefix}{point}")
    campaign = partial(create_campaign, moment=moment, name=f"C{point}", gm_mode="AI")
    file.write(campaign)
    os.write(told, b".")
    for n in range(ACTORS):
        file.write(partial(_actor, point=point, n=n))
        os.write(told, b".")
    file.close()


def _actor(records: Records, point: int, n: int) -> None:
    moment = Timestamp(1e9, rfc3339(1e9), lambda prefix: f"{prefix}{point}_{n}")
    of, key = f"camp_{point}", f"key {point} {n}"
    create_character(records, moment, of, name=f"A{n}", kind="NPC", key=key)
    records.touch(of)


def die_at(path: Path, point: int) -> tuple[int, bool]:
    """How many writes were acknowledged, and whether it was killed."""
    hears, tells = os.pipe()
    if (child := os.fork()) == 0:
        try:
            vfs = Dying(point)
            write_some(path, point, tells)
            vfs.unregister()
            os._exit(ENDS_WELL)
        except BaseException:
            traceback.print_exc()
            os._exit(70)  # a bug of ours
    os.close(tells)
    _, status = os.waitpid(child, 0)
    with os.fdopen(hears, "rb") as heard:
        written = len(heard.read())
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != ENDS_WELL:
        sys.exit("it failed in another way")
    return written, os.WIFSIGNALED(status)


def main() -> None:
    path, first, last = Path(sys.argv[1]), *map(int, sys.argv[2:])
    for point in range(first, last + 1):
        say(point, *map(int, die_at(path, point)))
        if sys.stdin.readline() != "next\n":
            return


if __name__ == "__main__":
    main()
