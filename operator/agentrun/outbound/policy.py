"""Which addresses may be dialled. Pure: judges addresses, resolves nothing."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

import httpx2

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Instance metadata of clouds that is not link-local: AWS over IPv6, Alibaba, Oracle, Azure's host agent.
METADATA = tuple(
    ipaddress.ip_address(text) for text in ("fd00:ec2::254", "100.100.100.200", "192.0.0.192", "168.63.129.16")
)
_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


class DialRefused(httpx2.ConnectError):
    """A destination that the policy closes; a repetition is refused as well."""


@dataclass(frozen=True)
class DialPolicy:
    """What may be dialled: `deny` always closes, `allow` opens even what is closed by its nature.

    `private` opens private and shared ranges: right for endpoints that the platform names, not for a tenant's.
    """

    allow: tuple[Network, ...] = ()
    deny: tuple[Network, ...] = ()
    private: bool = False

    @classmethod
    def of(cls, allow: Iterable[str], deny: Iterable[str], *, private: bool) -> "DialPolicy":
        """From CIDR texts. Raises ValueError naming a text that is none."""
        return cls(tuple(map(_network, allow)), tuple(map(_network, deny)), private)


def _network(text: str) -> Network:
    return ipaddress.ip_network(text, strict=False)


def refusal(address: Address, policy: DialPolicy, *, literal: bool = False) -> str | None:
    """Why the address may not be dialled, None if it may.

    `literal`: the destination was written as this address or as `localhost`. That opens loopback, which no name from
    DNS may lead to; it does not open link-local and metadata addresses.
    """
    for form in _forms(address):
        if any(form in network for network in policy.deny):
            return "is in a range that the class denies"
    if any(form in network for form in _forms(address) for network in policy.allow):
        return None
    return next((reason for form in _forms(address) if (reason := _closed(form, policy, literal=literal))), None)


def _closed(address: Address, policy: DialPolicy, *, literal: bool) -> str | None:
    if address.is_loopback:
        return None if literal else "is a loopback address"
    if address.is_link_local or address in METADATA:
        return "is a link-local or metadata address"
    if address.is_unspecified or address.is_multicast or address.is_reserved:
        return "is no address of a host"
    if not address.is_global and not policy.private:
        return "is a private address"
    return None


def _forms(address: Address) -> tuple[Address, ...]:
    """The address and the IPv4 address inside it (mapped, 6to4, Teredo, NAT64): a packet may end up there."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    inner: list[Address] = [form for form in (address.ipv4_mapped, address.sixtofour) if form is not None]
    if address.teredo is not None:
        inner.extend(address.teredo)
    if any(address in network for network in _NAT64):
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if address.ipv4_mapped is not None:
        return tuple(inner)  # the same host under another spelling, so only its IPv4 form counts
    return (address, *inner)
