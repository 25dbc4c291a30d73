"""An HTTP transport that dials only checked addresses: what was resolved and judged is what is connected to."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable

import httpx2

from agentrun.outbound.policy import Address, DialPolicy, DialRefused, refusal

Resolver = Callable[[str, int], Awaitable[list[Address]]]


async def resolve(host: str, port: int) -> list[Address]:
    """Every address of a host, in the resolver's order. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [ipaddress.ip_address(str(entry[4][0]).split("%")[0]) for entry in found]
    return list(dict.fromkeys(addresses))


def client(
    policy: DialPolicy, *, resolver: Resolver = resolve, verify: ssl.SSLContext | None = None
) -> httpx2.AsyncClient:
    """An HTTP client that follows no redirect, reads no proxy from the environment and dials what `policy` opens."""
    transport = GuardedTransport(policy, resolver, verify or ssl.create_default_context())
    return httpx2.AsyncClient(transport=transport, follow_redirects=False, trust_env=False)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Replaces the host by an address that passed the check; the name stays in `Host`, SNI and certificate check.

    One pool per name and port: a connection made for one name never serves another with the same address.
    """

    def __init__(self, policy: DialPolicy, resolver: Resolver, verify: ssl.SSLContext) -> None:
        self._policy = policy
        self._resolver = resolver
        self._verify = verify
        self._pools: dict[tuple[str, int | None], httpx2.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send over the first address that answers. Raises DialRefused if none is open, httpx2.ConnectError."""
        host = request.url.host
        addresses = await self._checked(host, request.url.port or (443 if request.url.scheme == "https" else 80))
        pool = self._pools.setdefault((host, request.url.port), self._pool())
        failure: httpx2.ConnectError | None = None
        for address in addresses:
            try:
                return await pool.handle_async_request(_aimed(request, host, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = httpx2.ConnectError(f"{type(error).__name__} at {address}", request=request)
        raise failure or httpx2.ConnectError(f"{host} has no address", request=request)

    async def aclose(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            await pool.aclose()

    def _pool(self) -> httpx2.AsyncHTTPTransport:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        return httpx2.AsyncHTTPTransport(verify=self._verify, trust_env=False, limits=limits)

    async def _checked(self, host: str, port: int) -> list[Address]:
        literal = _literal(host)
        try:
            addresses = [literal] if literal else await self._resolver(host, port)
        except OSError as error:
            raise httpx2.ConnectError(f"{host} cannot be resolved: {error.strerror or error}") from None
        by_hand = literal is not None or host == "localhost"
        reasons = {address: refusal(address, self._policy, literal=by_hand) for address in addresses}
        opened = [address for address, reason in reasons.items() if reason is None]
        if reasons and not opened:
            address, reason = next(iter(reasons.items()))
            raise DialRefused(f"{host} may not be dialled: {address} {reason}")
        return opened


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def _aimed(request: httpx2.Request, host: str, address: Address) -> httpx2.Request:
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,  # holds `Host` with the name already
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": host},
    )
