"""Bodies as they come: unpacked within bounds, and read whatever they say they are."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.builtin.web.charset import decoded
from glyphoxa_trio.builtin.web.page import plain_page
from glyphoxa_trio.builtin.web.refusals import Unreadable
from glyphoxa_trio.builtin.web.retrying import patience, waiting
from glyphoxa_trio.builtin.web.text import bounded, tidy
from glyphoxa_trio.builtin.web.unpacking import Body
from glyphoxa_trio.builtin.web.urls import parse

# G14

SLIP = b"good " * 60 + b"\xff"
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    "identity": lambda data: data,
    "gzip": gzip.compress,
    "x-gzip": lambda data: gzip.compress(data[:1]) + gzip.compress(data[1:]),
    "deflate": zlib.compress,
    "DEFLATE": lambda data: zlib.compress(data)[2:-4],  # without its head
}


@given(
    coding=st.sampled_from(sorted(PACKERS)),
    data=st.binary(max_size=300),
    cap=st.integers(1, 200),
    sizes=st.lists(st.integers(1, 40), min_size=1),
)
def test_a_body_is_what_was_sent_up_to_the_cap_however_it_comes(
    coding: str, data: bytes, cap: int, sizes: list[int]
) -> None:
    body = Body(coding, cap)
    packed = PACKERS[coding](data)
    more, at = True, 0
    while packed[at:] and more:
        size = sizes[at % len(sizes)]
        more = body.feed(packed[at : at + size])
        at += size
    assert body.end() == data[:cap]
    assert body.truncated is (len(data) > cap)
    assert more is not body.truncated


@given(st.sampled_from(["gzip", "deflate"]), st.binary(max_size=100), st.binary())
def test_whatever_is_sent_ends(coding: str, begin: bytes, rest: bytes) -> None:
    packed = PACKERS[coding](begin)
    for sent in (rest, packed[: len(packed) // 2] + rest, packed + rest):
        body = Body(coding, 64)
        try:
            body.feed(sent)
        except Unreadable:
            continue
        assert len(body.end()) <= 64


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_of_a_bomb_no_more_is_unpacked_than_fits(coding: str) -> None:
    packed = PACKERS[coding](bytes(10_000_000))
    body = Body(coding, 100_000)
    with pytest.raises(Unreadable, match="bomb"):
        body.feed(packed)
    assert len(body.data) == 100_001


def test_padding_without_end_is_left() -> None:
    body = Body("gzip", 1000)
    assert body.feed(gzip.compress(b"ale"))
    assert any(not body.feed(bytes(100)) for _ in range(100))
    assert (body.end(), body.truncated) == (b"ale", False)


def test_a_body_that_ends_too_early_is_not_whole() -> None:
    body = Body("gzip", 1000)
    assert body.feed(gzip.compress(b"ale " * 50, mtime=0)[:-12])
    body.end()
    assert body.truncated


@given(st.binary(max_size=200), st.text(max_size=12) | st.none(), st.booleans())
def test_any_bytes_are_some_text(data: bytes, declared: str | None, html: bool) -> None:
    decoded(data, declared, html=html).encode()


@given(
    st.text(max_size=50),
    st.sampled_from(["utf-8", "utf-16", "gb18030", "utf-16-le", "utf-16-be"]),
)
def test_what_is_declared_and_true_is_believed(text: str, charset: str) -> None:
    text = "a" + text.replace("\ufeff", "")
    assert decoded(text.encode(charset), charset, html=False) == text


@pytest.mark.parametrize(
    ("data", "declared", "text"),
    [
        (b"\xef\xbb\xbfG\xc3\xa4ste", "latin-1", "Gäste"),
        (b"G\xc3\xa4ste", "us-ascii", "Gäste"),
        (b"G\xc3\xa4ste", None, "Gäste"),
        (b"G\xe4ste", None, "Gäste"),
        (b"\x93Ale\x94", "iso-8859-1", "\u201cAle\u201d"),
        (b"G\xc3\xa4ste \xc3", "utf-8", "Gäste "),  # cut in a character
        (b"G\xe4ste", "utf-7", "Gäste"),
        (b"+ADw-script+AD4-", "utf-7", "+ADw-script+AD4-"),
        (b"789c", "hex", "789c"),
        (b"ale", "x" * 1000, "ale"),
        (b"ale", "utf-8\0", "ale"),
        (b"<meta charset=utf-16><p>ales", None, "<meta charset=utf-16><p>ales"),
        (
            b"<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>\xd0",
            None,
            "<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>п",
        ),
        (SLIP + b"G\xc3\xa4ste", "utf-8", "good " * 60 + "\ufffdGäste"),
    ],
)
def test_a_charset_that_lies_is_not_believed(
    data: bytes, declared: str | None, text: str
) -> None:
    assert decoded(data, declared) == text


@given(st.text(), st.integers(2, 50))
def test_a_text_is_cut_and_never_made_up(text: str, most: int) -> None:
    tidied = tidy(text)
    kept, cut = bounded(tidied, most)
    assert len(kept) <= most
    assert tidied.startswith(kept)
    assert cut is (len(tidied) > most)
    assert "\n\n\n" not in tidied
    assert all(c.isprintable() or c in "\n\t" for c in tidied)


@pytest.mark.parametrize(
    ("headers", "seconds", "said"),
    [
        ({}, None, ""),
        ({"retry-after": "0"}, 0.0, "in 1 second"),
        ({"retry-after": "1.5"}, 1.5, "in 2 seconds"),
        ({"retry-after": "soon"}, None, ""),
        ({"retry-after": "inf"}, None, ""),
        ({"retry-after": "1e9"}, 1e9, "much later"),
        ({"x-ratelimit-reset": "120, 5"}, 120.0, "in 2 minutes"),
        ({"x-ratelimit-reset": "120", "retry-after": "5"}, 5.0, "in 5 seconds"),
    ],
)
def test_how_long_a_server_asks_us_to_wait(
    headers: dict[str, str], seconds: float | None, said: str
) -> None:
    assert patience(headers) == seconds
    assert waiting(seconds) == said


def test_of_a_text_that_begins_with_nothing_the_rest_is_told_of() -> None:
    url = parse("http://inn.example/menu.txt")
    page = plain_page(
        url, b"ale" + b"\n" * 1000 + b"eel", None, cut=False, most_text=10
    )
    assert (page.title, page.text, page.truncated) == ("menu.txt", "ale", True)
