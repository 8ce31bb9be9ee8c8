"""The process that reads a page: HTML in, text out. One page, then it ends.

It is run as a program, with the bytes of memory that it may use as its argument. It
reads from stdin a line of JSON with the task, and then the page up to the end; it
writes a line of JSON to stdout. It limits itself before it reads anything.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
from typing import Final

CPU: Final = 2  # seconds of CPU time; a page needs half of one
_FILES: Final = 64


def main() -> None:
    memory = int(sys.argv[1])
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, CPU),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _FILES),
    ):
        resource.setrlimit(what, (most, most))
    from glyphoxa_trio.builtin.web.reading import load, read

    logging.disable()  # stderr is not read before the end
    load()  # while the page arrives
    task = json.loads(sys.stdin.buffer.readline())
    said = read(sys.stdin.buffer.read(), task["charset"], task["most_text"])
    answer = json.dumps(said).encode()
    with os.fdopen(1, "wb") as stdout:
        stdout.write(answer)


if __name__ == "__main__":
    main()
