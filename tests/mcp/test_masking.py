"""The mask between a server and us: what it hides, and what comes back as it came."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.mcp.masking import Masking, masked
from glyphoxa_trio.quiet import listen, quiet
from glyphoxa_trio.secret import HIDDEN, Mask, Secret

SECRET = "sesame-and-more-12"
MASK = Mask.of([SECRET])


def test_media_cursors_and_versions_stay_as_they_are() -> None:
    data = base64.b64encode(f"<{SECRET}>".encode()).decode()
    answer = {
        "content": [
            {"type": "text", "text": SECRET, "data": SECRET},
            {"type": "image", "data": data, "mimeType": SECRET},
            {"type": "audio", "data": SECRET},
            {"type": "resource", "resource": {"blob": data, "text": SECRET}},
            SECRET,
        ],
        "contents": [{"uri": SECRET, "blob": data}],
        "structuredContent": {SECRET: [SECRET], "type": "image", "data": data},
        "nextCursor": SECRET,
        "protocolVersion": SECRET,
    }
    assert masked(MASK, answer) == {
        "content": [
            {"type": "text", "text": HIDDEN, "data": HIDDEN},
            {"type": "image", "data": data, "mimeType": HIDDEN},
            {"type": "audio", "data": SECRET},
            {"type": "resource", "resource": {"blob": data, "text": HIDDEN}},
            HIDDEN,
        ],
        "contents": [{"uri": HIDDEN, "blob": data}],
        "structuredContent": {
            HIDDEN: [HIDDEN],
            "type": "image",
            "data": MASK.text(data),
        },
        "nextCursor": SECRET,
        "protocolVersion": SECRET,
    }


@given(
    st.dictionaries(
        st.sampled_from(["content", "contents", "x"]),
        st.recursive(
            st.none() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["type", "data", "blob", "resource", "image"]),
                    inner | st.just("image"),
                    max_size=3,
                )
            ),
            max_leaves=8,
        ),
    )
)
def test_what_has_no_secret_comes_back_as_it_was(answer: dict[str, object]) -> None:
    assert masked(MASK, answer) == answer
    assert masked(Mask(), answer) is answer


def test_a_session_hides_the_tokens_that_it_was_given_and_not_without_end() -> None:
    spec = ServerSpec(name="s", url="http://a.test/", token=Secret(SECRET))
    masking = Masking.of(spec)
    tokens = [f"token-number-{number}" for number in range(10)]
    for token in tokens:
        masking.learn(token)
        masking.learn(token)
    assert masking.text(f"{SECRET} {tokens[-1]} {tokens[-4]}") == " ".join([HIDDEN] * 3)
    assert masking.text(tokens[0]) == tokens[0]


# ----------------------------------------------------------- libraries' logs


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def test_what_a_library_logs_is_cleaned_whatever_it_is(
    heard: pytest.LogCaptureFixture,
) -> None:
    log = logging.getLogger("httpx2.a_part_that_came_later")
    other = logging.getLogger("somebody.else")
    listen()
    with quiet(MASK.text), quiet(Mask.of(["another-secret"]).text):
        log.debug("it is %s and %r", SECRET, {"another-secret": 1})
        other.debug("not ours: %s", SECRET)
        log.debug("%d of these", 3)
        try:
            raise ValueError(f"bad {SECRET}")
        except ValueError:
            log.exception("it failed")
    log.debug("for others: %s", SECRET)
    told = [logging.Formatter().format(record) for record in heard.records]
    assert told[0] == f"it is {HIDDEN} and {{'{HIDDEN}': 1}}"
    assert told[1] == f"not ours: {SECRET}"
    assert heard.records[2].args == (3,)  # what holds no secret is left alone
    assert SECRET not in told[3]
    assert f"ValueError: bad {HIDDEN}" in told[3]
    assert told[4] == f"for others: {SECRET}"


async def test_tasks_inherit_it_and_others_do_not(
    heard: pytest.LogCaptureFixture,
) -> None:
    log = logging.getLogger("mcp.client.a_part")

    async def say() -> None:
        log.info(SECRET)

    async with trio.open_nursery() as nursery:
        with quiet(MASK.text):
            nursery.start_soon(say)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(say)
    assert [record.getMessage() for record in heard.records] == [HIDDEN, SECRET]
