"""The addresses from which pages may come. Pure.

An address is global, private or neither. Addresses that are neither serve no pages; an
attacker may use them, above all link-local ones and the metadata services of clouds.
Private addresses are allowed if the operator lists them, by network or by name; one
that is neither must be listed as a network.

The lists are those of the IANA registries of special-purpose addresses. Python's own
`is_global` is not used: it counts multicast and 6to4 as global, and its answers have
changed from one patch release to the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

import attrs

from .urls import host_of

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class NetworkReach(Enum):
    """The networks from which an address can be reached."""

    GLOBAL = "global"
    PRIVATE = "private"
    NEITHER = "neither"


_PRIVATE: Final = tuple(
    ip_network(text)
    for text in (
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a provider's NAT, and in many virtual networks
        "127.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "::1/128",
        "fc00::/7",
    )
)
_NEITHER: Final = tuple(
    ip_network(text)
    for text in (
        # Metadata services that are not in a block of their own.
        "100.100.100.200/32",
        "168.63.129.16/32",
        "fd00:ec2::254/128",
        "fd20:ce::254/128",
        "0.0.0.0/8",
        "169.254.0.0/16",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",  # multicast, and reserved addresses
        "2001::/23",  # Teredo, benchmarks, identifiers of hosts
        "2001:db8::/32",
        "2002::/16",  # 6to4: a tunnel to the IPv4 address inside
        "3fff::/20",
    )
)
_UNICAST: Final = IPv6Network("2000::/3")  # all that has ever been assigned
_NAT64: Final = IPv6Network("64:ff9b::/96")


def reach(address: Address) -> NetworkReach:
    """Return the reach of an address, in whichever form it is written."""
    address = innermost(address)
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return NetworkReach.NEITHER  # it belongs to one network interface
    if _in(address, _NEITHER):
        return NetworkReach.NEITHER
    if _in(address, _PRIVATE):
        return NetworkReach.PRIVATE
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return NetworkReach.NEITHER
    return NetworkReach.GLOBAL


def innermost(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


@attrs.frozen
class Allowed:
    """The addresses that may be fetched from in addition to the global ones."""

    networks: tuple[Network, ...] = ()
    hosts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, entries: Iterable[str]) -> Allowed:
        """Parse networks, addresses and host names, as people write them.

        Raises:
          ValueError: for an entry that is none of them; the message names it.
        """
        networks: list[Network] = []
        hosts: set[str] = set()
        for entry in entries:
            try:
                networks.append(ip_network(entry))
                continue
            except ValueError as error:
                if "/" in entry:
                    raise ValueError(f"{entry!r}: {error}") from None
            try:
                hosts.add(host_of(entry).name)
            except ValueError as error:
                raise ValueError(f"{entry!r}: {error}") from None
        return cls(tuple(networks), frozenset(hosts))

    def refusal(self, host: str, addresses: Iterable[str]) -> str | None:
        """Return why this host may not be fetched from; None if it may.

        One forbidden address among allowed ones is enough: a name that leads both
        inside and outside is an attack, or fails half of the time.
        """
        for text in addresses:
            try:
                address = ip_address(text)
            except ValueError:
                return f"{host} has an invalid address"
            if not self._admits(host, address):
                return f"{host} is not on the public internet"
        return None

    def _admits(self, host: str, address: Address) -> bool:
        if _in(address, self.networks) or _in(innermost(address), self.networks):
            return True
        match reach(address):
            case NetworkReach.GLOBAL:
                return True
            case NetworkReach.PRIVATE:
                return host in self.hosts
        return False


def _in(address: Address, networks: Iterable[Network]) -> bool:
    return any(x.version == address.version and address in x for x in networks)
