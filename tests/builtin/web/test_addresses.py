"""Which addresses are fetched from, held against a dumb model and the standard
library's."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.builtin.web.addresses import Allowed, NetworkReach, reach

# Inside is what must never be reached by somebody who only writes an address. (G14)
ADDRESSES = {
    NetworkReach.PRIVATE: """
        127.0.0.1 127.255.255.254 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1
        100.64.0.1 100.127.255.255 ::1 fc00::1 fdff::1
        ::ffff:127.0.0.1 ::ffff:10.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a00:1
    """,
    NetworkReach.NEITHER: """
        0.0.0.0 0.1.2.3 169.254.169.254 169.254.0.1 ::ffff:169.254.169.254
        64:ff9b::169.254.169.254 100.100.100.200 168.63.129.16 fd00:ec2::254
        192.0.0.192 192.0.2.1 192.88.99.1 198.18.0.1 198.51.100.7 203.0.113.9
        224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
        :: ::127.0.0.1 64:ff9b:1::1 100::1 2001::1 2001:db8::1 2002:7f00:1:: 3fff::1
        5f00::1 fe80::1 fe80::1%eth0 2600::1%eth0 fec0::1 ff02::1 4000::1 8000::1
    """,
    NetworkReach.GLOBAL: """
        1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0
        126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0 172.15.255.255
        172.32.0.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0
        223.255.255.255 2606:4700::1111 2001:4860:4860::8888 ::ffff:8.8.8.8
        64:ff9b::8.8.8.8
    """,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [(text, kind) for kind, texts in ADDRESSES.items() for text in texts.split()],
)
def test_from_where_an_address_is_reached(text: str, expected: NetworkReach) -> None:
    assert reach(ip_address(text)) is expected


# Blocks that no page comes from, as first and last address; written out by hand.
MODEL_4 = [
    (first, last)
    for first, last in (
        (0x00000000, 0x00FFFFFF),
        (0x0A000000, 0x0AFFFFFF),
        (0x64400000, 0x647FFFFF),
        (0x7F000000, 0x7FFFFFFF),
        (0xA83F8110, 0xA83F8110),
        (0xA9FE0000, 0xA9FEFFFF),
        (0xAC100000, 0xAC1FFFFF),
        (0xC0000000, 0xC00000FF),
        (0xC0000200, 0xC00002FF),
        (0xC0586300, 0xC05863FF),
        (0xC0A80000, 0xC0A8FFFF),
        (0xC6120000, 0xC613FFFF),
        (0xC6336400, 0xC63364FF),
        (0xCB007100, 0xCB0071FF),
        (0xE0000000, 0xFFFFFFFF),
    )
]
EDGES = [edge + step for block in MODEL_4 for edge in block for step in (-1, 0, 1)]
V4 = st.one_of(
    st.integers(0, 2**32 - 1),
    st.sampled_from([edge for edge in EDGES if 0 <= edge < 2**32]),
).map(IPv4Address)


@given(V4)
def test_an_ipv4_address_is_global_where_the_model_has_no_block(a: IPv4Address) -> None:
    blocked = any(first <= int(a) <= last for first, last in MODEL_4)
    assert (reach(a) is NetworkReach.GLOBAL) is not blocked


@given(V4)
def test_an_ipv4_address_in_an_ipv6_address_is_what_it_is(a: IPv4Address) -> None:
    assert reach(IPv6Address((0xFFFF << 32) | int(a))) is reach(a)
    assert reach(IPv6Address((0x64FF9B << 96) | int(a))) is reach(a)
    # These would lead to it through somebody's tunnel.
    assert reach(IPv6Address((0x2002 << 112) | (int(a) << 80))) is NetworkReach.NEITHER
    assert reach(IPv6Address(int(a))) is not NetworkReach.GLOBAL


@given(st.integers(0, 2**128 - 1) | st.integers(0x2000 << 112, (0x4000 << 112) - 1))
def test_what_is_global_is_so_by_the_standard_library_too(number: int) -> None:
    address = IPv6Address(number)
    if reach(address) is NetworkReach.GLOBAL:
        inner = address.ipv4_mapped or address
        assert inner.is_global
        assert not inner.is_multicast
        nat64 = number >> 32 == 0x64FF9B << 64
        assert number >> 125 == 1 or address.ipv4_mapped or nat64


@pytest.mark.parametrize(
    ("entries", "host", "address", "allowed"),
    [
        ([], "wiki.lan", "192.168.1.7", False),
        (["192.168.1.0/24"], "wiki.lan", "192.168.1.7", True),
        (["192.168.1.0/24"], "wiki.lan", "::ffff:192.168.1.7", True),
        (["192.168.1.0/24"], "wiki.lan", "192.168.2.7", False),
        (["192.168.1.7"], "wiki.lan", "192.168.1.7", True),
        (["wiki.lan"], "wiki.lan", "192.168.1.7", True),
        (["WIKI.lan."], "wiki.lan", "fd12::7", True),
        (["wiki.lan"], "other.lan", "192.168.1.7", False),
        (["wiki.lan"], "wiki.lan", "169.254.169.254", False),  # never by a name
        (["169.254.0.0/16"], "metadata", "169.254.169.254", True),  # they said so
        (["::1"], "localhost", "::1", True),
        (["::1"], "localhost", "127.0.0.1", False),
    ],
)
def test_what_is_allowed_beside(
    entries: list[str], host: str, address: str, allowed: bool
) -> None:
    assert (Allowed.of(entries).refusal(host, [address]) is None) is allowed


def test_one_bad_address_among_good_ones_is_enough() -> None:
    assert Allowed().refusal("x", ["8.8.8.8", "1.1.1.1"]) is None
    for bad in ("127.0.0.1", "nonsense", "fe80::1%eth0"):
        assert Allowed().refusal("x", ["8.8.8.8", bad]) is not None


@pytest.mark.parametrize(
    "entry", ["192.168.1.1/24", "10.0.0.0/33", "a b", "", "0x7f.1"]
)
def test_an_entry_that_is_nothing_is_named(entry: str) -> None:
    with pytest.raises(ValueError, match=f"^{entry!r}: "):
        Allowed.of([entry])
