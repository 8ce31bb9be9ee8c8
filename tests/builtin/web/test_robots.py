"""What sites ask of robots (RFC 9309): the rules alone, and kept by the fetcher."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.builtin.web.refusals import PageRefused, SiteFails
from glyphoxa_trio.builtin.web.robots import MAX_RULES, Robots, fits, product
from glyphoxa_trio.builtin.web.sites import BAD_FOR, GOOD_FOR, MOST_SITES, Sites
from glyphoxa_trio.builtin.web.urls import PageUrl, parse
from glyphoxa_trio.testing.http_server import (
    CloseConnection,
    NoAnswer,
    RawBytes,
    Reply,
    StatusReply,
)

from .support import TEXT, open_site

# G14

RULES = """
# A site.
User-agent: *
Disallow: /private
Allow: /private/menu   # but not the cellar
Disallow: /*.pdf$
Disallow:
Crawl-delay: 10

USER-AGENT: OtherBot/2.1
user-agent: glyphoxa-trio
Disallow: /hall
Allow: /hall$

User-agent: glyphoxa-trio
Disallow: /caf%C3%A9
Disallow: /a%2fb
Disallow: /%7Etom
"""


@pytest.mark.parametrize(
    ("robot", "target", "allowed"),
    [
        ("SomeBot", "/", True),
        ("SomeBot", "/private", False),
        ("SomeBot", "/private/menu/today", True),
        ("SomeBot", "/private?x", False),
        ("SomeBot", "/list.pdf", False),
        ("SomeBot", "/list.pdf?page=2", True),
        ("SomeBot", "/robots.txt", True),
        ("glyphoxa-trio", "/private", True),
        ("Glyphoxa-Trio", "/hall", True),
        ("glyphoxa-trio", "/hall/of/fame", False),
        ("otherbot", "/hall/of/fame", False),
        ("otherbot", "/caf%C3%A9", True),
        ("glyphoxa-trio", "/caf%c3%a9/menu", False),
        ("glyphoxa-trio", "/a%2Fb", False),
        ("glyphoxa-trio", "/a/b", True),
        ("glyphoxa-trio", "/~tom/", False),
    ],
)
def test_the_longest_rule_of_ones_own_group_holds(
    robot: str, target: str, allowed: bool
) -> None:
    assert Robots.parse(RULES, robot).allow(target) is allowed


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", True),
        ("Disallow: /", True),  # of no group
        ("User-agent: *\nDisallow: /", False),
        ("\ufeffUser-agent: *\rDisallow: /", False),
        ("User-agent: *\nDisallow: /\nAllow: /", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: Bot\n", True),
        ("User-agent: B\nUser-agent: Bot\nSitemap: x\nDisallow: /", False),
        ("<html>User-agent: * Disallow: /</html>", True),
        ("\0\ud800\n: :\nUser-agent\n" * 100, True),
    ],
)
def test_a_file_is_read_as_the_standard_says(text: str, allowed: bool) -> None:
    assert Robots.parse(text, "Bot").allow("/x") is allowed


def test_the_rules_themselves_may_always_be_read() -> None:
    assert Robots.parse("User-agent: *\nDisallow: /", "Bot").allow("/robots.txt")


def test_a_robot_is_called_by_its_first_word() -> None:
    assert product("Tavern_Bot-x/1.0 (+http://example.org)") == "Tavern_Bot-x"
    assert product("1") == ""


PATTERNS = st.text(alphabet="ab/*$", max_size=8)


@example("a*a$", "a")
@example("*$", "")
@given(PATTERNS, st.text(alphabet="ab/$", max_size=10))
def test_a_pattern_fits_as_a_regular_expression_does(pattern: str, target: str) -> None:
    end = "$" if pattern.endswith("$") else ""
    body = pattern.removesuffix("$")
    model = ".*".join(re.escape(piece) for piece in body.split("*"))
    assert fits(pattern, target) is bool(
        re.match(f"(?s:{model}){end and 'Z'}".replace("Z", r"\Z"), target)
    )


def test_a_line_of_asterisks_holds_nobody_up() -> None:
    # As a regular expression this would not end while there are stars in the sky.
    rules = Robots.parse("User-agent: *\nDisallow: /" + "*a" * 900 + "b", "Bot")
    assert rules.allow("/" + "a" * 2000)


def test_there_are_no_more_rules_than_anybody_needs() -> None:
    text = "User-agent: *\n" + "Disallow: /x\n" * (2 * MAX_RULES)
    assert len(Robots.parse(text, "Bot").rules) == MAX_RULES


# In the fetcher.


def rules(text: str) -> dict[str, Reply]:
    return {
        "/robots.txt": StatusReply(200, TEXT, text.encode()),
        "/": StatusReply(200, TEXT, b"ale"),
        "/no": StatusReply(200, TEXT, b"no"),
        "/to-no": StatusReply(302, {"Location": "/no"}),
        "/robots/2": StatusReply(200, TEXT, b"User-agent: *\nDisallow: /no"),
    }


async def test_a_page_that_robots_must_not_read_is_not_asked_for() -> None:
    with trio.fail_after(30):
        async with open_site(rules("User-agent: *\nDisallow: /no")) as site:
            assert (await site.page("/")).text == "ale"
            for path in ("/no", "/x/../no", "/%6eo", "/to-no"):
                assert "robots" in await site.refusal(path, PageRefused)
    assert site.asked == ["/", "/to-no"]
    assert len(site.http.requests) == 3  # its robots.txt was asked for once


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (StatusReply(404), None),
        (StatusReply(403), None),
        (StatusReply(302, {"Location": "/robots/2"}), None),
        (
            StatusReply(302, {"Location": "/robots.txt"}),
            None,
        ),  # for ever: as if missing
        (StatusReply(200, TEXT, b"\xff\xfe\x00" * 1000), None),
        (StatusReply(500), "does not say"),
        (StatusReply(429), "does not say"),
        (CloseConnection(), "an invalid answer"),
        (RawBytes(b"nonsense\r\n\r\n"), "an invalid answer"),
    ],
)
async def test_a_robots_txt_that_cannot_be_had(reply: Reply, said: str | None) -> None:
    with trio.fail_after(30):
        async with open_site(rules("") | {"/robots.txt": reply}) as site:
            if said is None:
                assert (await site.page("/")).text == "ale"
            else:
                assert said in await site.refusal("/", SiteFails)


async def test_rules_behind_a_redirect_count() -> None:
    moved = StatusReply(301, {"Location": "/robots/2"})
    with trio.fail_after(30):
        async with open_site(rules("") | {"/robots.txt": moved}) as site:
            await site.refusal("/no", PageRefused)


@pytest.mark.border
async def test_a_robots_txt_that_does_not_come_is_not_waited_for_long() -> None:
    with trio.fail_after(30):
        async with open_site(rules("") | {"/robots.txt": NoAnswer()}) as site:
            assert "does not say" in await site.refusal("/", SiteFails)
            assert site.asked == []


# What is kept, on virtual time.


class Shelf:
    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.asked: list[PageUrl] = []

    async def __call__(self, url: PageUrl) -> bytes | None:
        await trio.sleep(0.5)
        self.asked.append(url)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


async def test_rules_are_kept_for_an_hour_and_failures_for_half_a_minute(
    autojump_clock: MockClock,
) -> None:
    sites = Sites()
    get = Shelf(None, b"User-agent: *\nDisallow: /no", b"")
    page = parse("http://inn.example/no")
    for _ in range(2):
        with pytest.raises(SiteFails):
            await sites.allows(page, "Bot", get)
    assert trio.current_time() == 0.5
    await trio.sleep(BAD_FOR)
    assert not await sites.allows(page, "Bot", get)
    assert trio.current_time() == 1.0 + BAD_FOR
    await trio.sleep(GOOD_FOR - 1)
    assert not await sites.allows(page, "Bot", get)
    await trio.sleep(1)
    assert await sites.allows(page, "Bot", get)
    assert get.asked == [parse("http://inn.example/robots.txt")] * 3


async def test_rules_of_many_sites_are_bounded(autojump_clock: MockClock) -> None:
    sites, get = Sites(), Shelf(b"")
    for n in range(2 * MOST_SITES):
        await sites.allows(parse(f"http://{n}.example/"), "Bot", get)
    assert len(sites._rules) == MOST_SITES
    await sites.allows(parse(f"http://{2 * MOST_SITES - 1}.example/"), "Bot", get)
    assert len(get.asked) == 2 * MOST_SITES
    # Another port is another site.
    await sites.allows(parse(f"http://{2 * MOST_SITES - 1}.example:81/"), "Bot", get)
    assert len(get.asked) == 2 * MOST_SITES + 1


async def test_of_hosts_that_nobody_visits_nothing_is_kept(
    autojump_clock: MockClock,
) -> None:
    sites = Sites()
    page = parse("http://inn.example/")
    order: list[int] = []

    async def visit(n: int) -> None:
        async with sites.visiting(page):
            order.append(n)
            await trio.sleep(1)

    with trio.move_on_after(2.5):
        async with trio.open_nursery() as nursery:
            for n in range(9):
                nursery.start_soon(visit, n)
    assert len(order) == 6
    assert not sites._hosts
