"""Where the API server is and who we are there: a kubeconfig, or the Pod's service account."""

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_kube_config  # pyright: ignore[reportUnknownVariableType]

from agentrun.core.errors import AgentrunError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoCluster(AgentrunError):
    """There is no usable kubeconfig and this is no Pod; the message says what to set."""


@dataclass(frozen=True)
class Access:
    """`token` is asked before each request: projected tokens are rotated in place."""

    server: str
    tls: ssl.SSLContext
    token: Callable[[], str | None]
    namespace: str = "default"
    proxy: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    verify: bool = True


async def access(kubeconfig: Path | None = None, context: str | None = None) -> Access:
    """A named kubeconfig, else the Pod's account, else KUBECONFIG or ~/.kube/config. Raises NoCluster."""
    if kubeconfig is None and context is None and (ACCOUNT / "token").exists():
        return _in_cluster()
    return await _from_kubeconfig(kubeconfig, context)


def _in_cluster() -> Access:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise NoCluster("KUBERNETES_SERVICE_HOST is not set: give --kubeconfig, or let the Pod have service variables")
    host = f"[{host}]" if ":" in host else host
    tls = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    ca = str(ACCOUNT / "ca.crt")
    return Access(f"https://{host}:{port}", tls, _account_token, _account_namespace(), ca_file=ca)


def _account_token() -> str:
    return (ACCOUNT / "token").read_text().strip()


def _account_namespace() -> str:
    path = ACCOUNT / "namespace"
    return path.read_text().strip() if path.exists() else "default"


async def _from_kubeconfig(kubeconfig: Path | None, context: str | None) -> Access:
    configuration: Any = Configuration()
    try:
        await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(kubeconfig) if kubeconfig else None, context=context, client_configuration=configuration
        )
    except (ConfigException, OSError) as error:
        raise NoCluster(f"no usable kubeconfig ({error}): give --kubeconfig or set KUBECONFIG") from error
    token = str(configuration.api_key.get("BearerToken", "")).removeprefix("Bearer ")
    server = str(configuration.host).rstrip("/")
    return Access(
        server,
        _tls(configuration),
        lambda: token or None,
        proxy=configuration.proxy or None,
        ca_file=configuration.ssl_ca_cert,
        certificate_file=configuration.cert_file,
        key_file=configuration.key_file,
        verify=bool(configuration.verify_ssl),
    )


def _tls(configuration: Any) -> ssl.SSLContext:
    tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if not configuration.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    return tls
