"""The process that reads a page: what it says, what limits it, and its end.

Real processes, so nothing is timed; each test has an absolute end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import repeat

import pytest

import trio
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio.builtin.web.extraction import Extractor, PageReader
from glyphoxa_trio.builtin.web.refusals import Unreadable
from glyphoxa_trio.testing.http_server import Pieces
from glyphoxa_trio.tools.definition import ToolUnavailable

from .support import HTML, INN, STORY, WORDS, open_site, patient

pytestmark = pytest.mark.border

# G14

TANGLED = "too complex"


async def test_what_a_page_says_beside_its_text() -> None:
    page = b"""<!doctype html><html xml:lang="de-AT"><head>
        <meta property="og:title" content="Zum &amp; vom Wirt">
        <meta http-equiv="refresh" content="5; url='next.html'">
        <script>document.title = 'no'</script></head>
        <frameset><frame src="a"><frame src="b"></frameset></html>"""
    with trio.fail_after(30):
        async with patient().open() as reader:
            read = await reader.read(page, None, most_text=100)
    assert (read.title, read.language) == ("Zum & vom Wirt", "de-AT")
    assert (read.forward, read.forward_after) == ("next.html", 5.0)
    assert (list(read.frames), read.scripted, read.text) == (["a", "b"], True, "")


async def test_a_long_text_is_cut_between_words() -> None:
    with trio.fail_after(30):
        async with patient().open() as reader:
            read = await reader.read(STORY.encode(), None, most_text=100)
    assert read.truncated
    assert read.text == WORDS[: len(read.text)] or read.text.startswith(WORDS)
    assert 50 < len(read.text) <= 100


DIVS = b"<div>" * 60_000
HOSTILE = {
    "nested": DIVS,
    "nested, with a text": DIVS[:5000] + STORY.encode() + DIVS,
    "tables": b"<table><tr><td>" * 17_000,
    "lists": b"<ul><li>" * 30_000,
    "attributes": b"<p " + b"a=b " * 60_000 + b">ale",
    "entities": b"&amp;" * 50_000 + b"<!DOCTYPE x [<!ENTITY a 'b'>]>&a;" * 10,
    "NULs": b"\0" * 1000 + b"<p>a\0l\0e",
    "comments": b"<!--" * 60_000,
    "no HTML": bytes(range(256)) * 1000,
    "surrogates": b"<p>&#xD800;&#x110000;\xed\xa0\x80",
    "XML": b"<?xml version='1.0' encoding='utf-16'?><html><p>ale</html>",
}


@pytest.mark.parametrize("page", HOSTILE.values(), ids=HOSTILE.keys())
async def test_hostile_pages_end_in_a_text_or_an_answer(page: bytes) -> None:
    with trio.fail_after(30):
        async with patient().open() as reader:
            with suppress(Unreadable):  # killed for what it took
                read = await reader.read(page, None, most_text=1000)
                assert len(read.text) <= 1000
                read.text.encode()


async def test_three_hundred_megabytes_of_nesting_are_a_short_answer() -> None:
    # The connection is left after a quarter of a megabyte of them.
    reply = Pieces(lambda: repeat(b"<div>" * 20_000, 3000), HTML)
    with trio.fail_after(60):
        async with open_site(reply) as site:
            await site.refusal(kind=Unreadable)
            await site.http.wait(lambda: site.http.hangups == 1)


@asynccontextmanager
async def opened(extractor: Extractor) -> AsyncGenerator[PageReader]:
    async with extractor.open() as reader:
        yield reader
    assert reader.process.returncode is not None


async def test_a_process_that_is_killed_is_an_answer_and_the_next_page_is_read(
    no_children: Callable[[], bool],
) -> None:
    extractor = patient()
    with trio.fail_after(30):
        async with opened(extractor) as reader:
            reader.process.kill()
            with pytest.raises(Unreadable, match=TANGLED):
                await reader.read(b"<p>ale", None, most_text=10)
        async with opened(extractor) as reader:
            assert (await reader.read(b"<p>ale", None, most_text=10)).text == "ale"
    assert no_children()


async def test_a_process_that_is_stopped_is_left_and_ended(
    no_children: Callable[[], bool],
) -> None:
    extractor = Extractor(patience=0.3)
    with trio.fail_after(30):
        async with opened(extractor) as reader:
            os.kill(reader.process.pid, signal.SIGSTOP)
            with pytest.raises(Unreadable, match=TANGLED):
                await reader.read(b"<p>ale" * 100_000, None, most_text=10)
    assert no_children()


async def test_a_process_without_memory_is_an_answer(
    no_children: Callable[[], bool],
) -> None:
    with trio.fail_after(30):
        async with opened(patient(memory=30_000_000)) as reader:
            with pytest.raises(Unreadable, match=TANGLED):
                await reader.read(INN.body, None, most_text=10)
    assert no_children()


async def test_nothing_is_left_of_a_page_that_nobody_waits_for(
    no_children: Callable[[], bool],
) -> None:
    extractor = patient()
    with trio.fail_after(30):
        with trio.CancelScope() as scope:
            async with opened(extractor) as reader:
                os.kill(reader.process.pid, signal.SIGSTOP)  # it would take for ever
                async with trio.open_nursery() as nursery:
                    page = partial(reader.read, b"<p>ale", None, most_text=10)
                    nursery.start_soon(page)
                    await wait_all_tasks_blocked(0.05)
                    scope.cancel()
    assert no_children()
    assert extractor._limit.statistics().borrowed_tokens == 0


async def test_pages_wait_for_a_process_and_are_all_read(
    no_children: Callable[[], bool],
) -> None:
    texts: list[str] = []
    extractor = patient()

    async def read(n: int) -> None:
        async with extractor.open() as reader:
            said = await reader.read(f"<p>ale {n}".encode(), None, most_text=10)
            texts.append(said.text)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for n in range(6):
                nursery.start_soon(read, n)
    assert sorted(texts) == [f"ale {n}" for n in range(6)]
    assert no_children()


async def test_where_no_process_can_be_started_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/python")
    extractor = patient()
    with (
        trio.fail_after(30),
        pytest.raises(ToolUnavailable, match="cannot be read now"),
    ):
        async with extractor.open():
            raise AssertionError
    assert extractor._limit.statistics().borrowed_tokens == 0


def test_the_process_limits_itself_and_knows_nothing_of_us() -> None:
    # Limits are set before anything that is read; a child of it has them, too.
    code = """
import resource, sys
from glyphoxa_trio.builtin.web import worker
sys.argv[1:] = ["400000000"]
sys.stdin.close()
try: worker.main()
except ValueError: pass
print(*[resource.getrlimit(x)[0] for x in (resource.RLIMIT_AS, resource.RLIMIT_CPU,
      resource.RLIMIT_CORE, resource.RLIMIT_NOFILE)])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["400000000", "2", "0", "64"]


def test_the_process_loads_nothing_that_it_does_not_need() -> None:
    # A page waits for it.
    code = """
import sys
from glyphoxa_trio.builtin.web import worker, reading
reading.load()
print(*({"trio", "attrs", "httpx2", "httpcore2"} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


async def test_a_process_whose_starter_died_ends_by_itself() -> None:
    # Its stdin ends, whatever became of the one who started it.
    async with patient().open() as reader:
        assert reader.process.stdin is not None
        await reader.process.stdin.aclose()
        with trio.fail_after(30):
            assert await reader.process.wait() != 0


async def test_secrets_of_the_environment_are_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GLYPHOXA_SEARCH_KEY", "secret")
    with trio.fail_after(30):
        async with patient().open() as reader:
            pid = reader.process.pid
            environment = await trio.Path(f"/proc/{pid}/environ").read_bytes()
            assert (await reader.read(b"<p>ale", None, most_text=10)).text == "ale"
    assert b"secret" not in environment
