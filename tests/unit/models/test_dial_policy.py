"""What may be dialled: private endpoints of the platform, never metadata, loopback or link-local by name (R17, C29)."""

import ipaddress

import httpx2
import pytest

from agentrun.outbound.dial import client
from agentrun.outbound.policy import Address, DialPolicy, DialRefused, refusal

PLATFORM = DialPolicy(private=True)
TENANT = DialPolicy()


@pytest.mark.parametrize(
    "text",
    [
        "169.254.169.254",
        "fe80::1",
        "fd00:ec2::254",
        "100.100.100.200",
        "168.63.129.16",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "255.255.255.255",
    ],
)
def test_closed_even_for_the_platform_C29(text: str) -> None:
    assert refusal(ipaddress.ip_address(text), PLATFORM) is not None


@pytest.mark.parametrize("text", ["10.1.2.3", "192.168.1.1", "100.64.0.9", "fd12::1", "::ffff:10.0.0.1"])
def test_private_addresses_are_the_platforms_alone_R17(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert refusal(address, PLATFORM) is None
    assert refusal(address, TENANT) == "is a private address"


@pytest.mark.parametrize("text", ["8.8.8.8", "2606:4700::1111"])
def test_public_addresses_are_open(text: str) -> None:
    assert refusal(ipaddress.ip_address(text), TENANT) is None


def test_loopback_opens_only_where_it_was_written_R17() -> None:
    assert refusal(ipaddress.ip_address("127.0.0.1"), PLATFORM, literal=True) is None
    assert refusal(ipaddress.ip_address("169.254.169.254"), PLATFORM, literal=True) is not None


def test_the_class_opens_and_denies_and_denying_wins_R17() -> None:
    metadata = ipaddress.ip_address("169.254.169.254")
    assert refusal(metadata, DialPolicy.of(["169.254.169.254/32"], [], private=True)) is None
    assert refusal(metadata, DialPolicy.of(["169.254.0.0/16"], ["169.254.169.254/32"], private=True)) is not None
    assert refusal(ipaddress.ip_address("::ffff:8.8.8.8"), DialPolicy.of([], ["8.8.8.0/24"], private=True)) is not None


async def test_a_name_that_leads_to_metadata_is_refused_before_a_connection_C29() -> None:
    async def resolver(host: str, port: int) -> list[Address]:
        assert (host, port) == ("model.example", 80)
        return [ipaddress.ip_address("169.254.169.254")]

    async with client(PLATFORM, resolver=resolver) as http:
        with pytest.raises(DialRefused, match=r"model\.example may not be dialled: 169\.254\.169\.254 is a link-local"):
            await http.get("http://model.example/")


async def test_a_name_that_leads_to_loopback_is_refused_R17() -> None:
    async def resolver(_host: str, _port: int) -> list[Address]:
        return [ipaddress.ip_address("127.0.0.1")]

    async with client(PLATFORM, resolver=resolver) as http:
        with pytest.raises(DialRefused, match="loopback"):
            await http.get("http://model.example/")


async def test_a_name_without_an_address_is_an_error_to_retry() -> None:
    async def resolver(_host: str, _port: int) -> list[Address]:
        raise OSError(-2, "Name or service not known")

    async with client(PLATFORM, resolver=resolver) as http:
        with pytest.raises(httpx2.ConnectError, match="cannot be resolved") as caught:
            await http.get("http://model.example/")
    assert not isinstance(caught.value, DialRefused)
