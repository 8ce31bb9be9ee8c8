"""Made-up webs, over real sockets, against a model that knows all of the web; and
made-up visits, on virtual time."""

from __future__ import annotations

from collections import Counter

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.builtin.web.fetching import MAX_REDIRECTS
from glyphoxa_trio.builtin.web.sites import MOST_VISITS, Sites
from glyphoxa_trio.builtin.web.urls import parse
from glyphoxa_trio.testing.http_server import Reply, StatusReply
from glyphoxa_trio.tools.definition import ToolError

from .support import TEXT, open_site

# G14

PATHS = [f"/{name}" for name in "abcdefgh"]
INSIDE = "http://10.1.2.3/"


@attrs.frozen
class Web:
    """Pages by path: a text, a status, or a path to which it redirects."""

    pages: dict[str, str | int]
    forbidden: frozenset[str]

    def expected(self, path: str) -> str:
        """What is said of a path: its text, or why there is none."""
        seen: list[str] = []
        while True:
            if path in seen:
                return "circle"
            if len(seen) > MAX_REDIRECTS:
                return "on and on"
            seen.append(path)
            if path == INSIDE:
                return "public internet"
            if path in self.forbidden:
                return "robots"
            match self.pages.get(path, 404):
                case 404:
                    return "no such page"
                case int():
                    return "does not work"
                case str(page) if page.startswith("text"):
                    return page
                case page:
                    path = str(page)


WEBS = st.builds(
    Web,
    pages=st.dictionaries(
        st.sampled_from(PATHS),
        st.sampled_from([*PATHS, *PATHS, INSIDE, "text 1", "text 2"])
        | st.sampled_from([404, 500]),
    ),
    forbidden=st.frozensets(st.sampled_from(PATHS), max_size=2),
)


def reply(page: str | int, port: int) -> Reply:
    if isinstance(page, int):
        return StatusReply(page)
    if page.startswith("text"):
        return StatusReply(200, TEXT, page.encode())
    return StatusReply(302, {"Location": page.replace("10.1.2.3", f"10.1.2.3:{port}")})


@settings(max_examples=15)
@given(WEBS)
def test_any_web_is_read_as_the_model_says(web: Web) -> None:
    async def run() -> None:
        with trio.fail_after(60):
            async with open_site({}) as site:
                rules = "".join(f"Disallow: {path}$\n" for path in web.forbidden)
                robots = StatusReply(200, TEXT, f"User-agent: *\n{rules}".encode())
                pages = web.pages.items()
                site.pages |= {path: reply(page, site.port) for path, page in pages}
                site.pages["/robots.txt"] = robots
                for path in PATHS[:4]:
                    try:
                        said = (await site.page(path)).text
                    except ToolError as error:
                        said = str(error)
                    assert web.expected(path) in said
                assert not web.forbidden & set(site.asked)

    trio.run(run)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),  # a host
            st.integers(0, 5),  # when somebody comes
            st.integers(0, 4),  # how long the visit takes
            st.integers(1, 9),  # when it is given up
        ),
        max_size=20,
    )
)
def test_of_a_host_there_are_never_more_visits_than_two(
    visits: list[tuple[str, int, int, int]],
) -> None:
    now: Counter[str] = Counter()
    began: list[int] = []

    async def visit(sites: Sites, n: int) -> None:
        host, comes, takes, gives_up = visits[n]
        await trio.sleep(comes)
        with trio.move_on_after(gives_up):
            async with sites.visiting(parse(f"http://{host}.example/{n}")):
                began.append(n)
                now[host] += 1
                assert now[host] <= MOST_VISITS
                try:
                    await trio.sleep(takes)
                finally:
                    now[host] -= 1

    async def run() -> None:
        sites = Sites()
        async with trio.open_nursery() as nursery:
            for n in range(len(visits)):
                nursery.start_soon(visit, sites, n)
        assert not sites._hosts
        assert not +now
        # Nobody waits at a host that two or fewer ever visit.
        guests = Counter(host for host, *_ in visits)
        for n, (host, *_) in enumerate(visits):
            assert n in began or guests[host] > MOST_VISITS

    trio.run(run, clock=MockClock(autojump_threshold=0))
