"""Lines on stderr: nobody waits for whoever should read them."""

from __future__ import annotations

import io
import logging
import os
import threading

import pytest

from glyphoxa_trio.servers.log import MOST_WAITING, Stderr


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be busy, and here somebody does read."""
    monkeypatch.setattr("glyphoxa_trio.servers.log._LAST_WORDS", 20.0)


def logger_of(handler: logging.Handler) -> logging.Logger:
    logger = logging.Logger("test")
    logger.addHandler(handler)
    return logger


def test_a_line_names_the_server_and_steers_no_terminal() -> None:
    heard = io.StringIO()
    log = Stderr("glyphoxa serve dice", heard)
    logger = logger_of(log)
    logger.error("a\x1b[31m tool \x07of %s", "Bo")
    logger.info("nobody needs to know")
    logger.error("x" * 100_000)
    log.close()
    said = heard.getvalue()
    assert said.startswith("glyphoxa serve dice: a\\x1b[31m tool \\x07of Bo\n")
    assert "nobody" not in said
    assert len(said) < 9000


def test_nobody_waits_for_a_reader_and_what_is_left_out_is_counted() -> None:
    reads, writes = os.pipe()
    heard: list[bytes] = []

    def read() -> None:
        while chunk := os.read(reads, 2**16):
            heard.append(chunk)

    reader = threading.Thread(target=read)
    with os.fdopen(writes, "w") as full:
        log = Stderr("s", full)
        logger = logger_of(log)
        # As many wait as its writer has in hand, at most, and then as many again.
        for number in range(4 * MOST_WAITING):
            logger.error("%d %s", number, "x" * 5000)
        # Nobody has read until here, and now somebody does.
        reader.start()
        log.close()
    reader.join()
    os.close(reads)
    said = b"".join(heard).decode()
    assert "s: 0 x" in said
    assert f"s: {4 * MOST_WAITING - 1} x" not in said


def test_who_reads_again_is_told_how_much_it_missed() -> None:
    began, go_on = threading.Event(), threading.Event()

    class Slow(io.StringIO):
        def write(self, text: str) -> int:
            began.set()
            assert go_on.wait(10)
            return super().write(text)

    heard = Slow()
    log = Stderr("s", heard)
    logger = logger_of(log)
    logger.error("first")
    assert began.wait(10)
    for _ in range(MOST_WAITING + 3):  # one is being written
        logger.error("another")
    go_on.set()
    log.close()
    assert heard.getvalue().endswith("s: another\n[3 messages left out]\n")
