"""Refusals of the API server in plain words, with the command an admin would run where a right is missing."""

import re
import shlex

from agentrun.core.errors import AgentrunError
from agentrun.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound, Unavailable

RUNNER_ROLE = "agentrun-runner"
_USER = re.compile(r'[Uu]ser "([^"]+)"')
_ACCOUNT = re.compile(r"system:serviceaccount:([^:]+):([^:]+)")
_DENIED = re.compile(r"denied request: (.*)", re.DOTALL)


class Refused(AgentrunError):
    """What was asked for did not happen; the message is for a person and ends with what to do."""


def run_refused(error: KubeError, namespace: str, run: str = "") -> Refused:
    """Of a request for the AgentRuns of a namespace."""
    what = f'run "{run}" in namespace "{namespace}"' if run else f'agent runs of namespace "{namespace}"'
    match error:
        case NotFound():
            return Refused(_not_found(error, what, namespace))
        case AlreadyExists():
            return Refused(f"there is already a {what}: choose another --name, or delete that run first")
        case Conflict():
            return Refused(f"{what} was changed or replaced by somebody else at this moment: look at it and try again")
        case Forbidden():
            return Refused(_forbidden(error, what, namespace))
        case Invalid():
            return Refused(f"the API server refuses this {what}: {error.message}")
        case _:
            return Refused(no_answer(error))


def no_answer(error: KubeError) -> str:
    """Of a request that failed for no reason of its own."""
    if isinstance(error, Unavailable):
        return f"the API server does not answer ({error.message}): check the cluster and the kubeconfig, then try again"
    return f"the API server answers {error.status} {error.reason}: {error.message}"


def _not_found(error: KubeError, what: str, namespace: str) -> str:
    if re.search(r'^namespaces? "', error.message):
        return f'there is no namespace "{namespace}": choose one with -n'
    if "could not find the requested resource" in error.message or "page not found" in error.message:
        return "this cluster does not know agent runs: an admin installs the chart agentrun-crds"
    return f"there is no {what}: `kubectl agentrun get` lists them"


def _forbidden(error: KubeError, what: str, namespace: str) -> str:
    if error.status == 401:
        return "the API server does not know you (401): sign in again, the kubeconfig's credential may have run out"
    denied = _DENIED.search(error.message)
    if denied:
        return f"not allowed: {denied.group(1)}"
    words = f"you may not do this to {what}: {error.message}"
    return f"{words}\n{ask_admin(error.message, RUNNER_ROLE, namespace, cluster_role=True)}"


def ask_admin(message: str, role: str, namespace: str, *, cluster_role: bool) -> str:
    """The command that gives the user whom a refusal names a role in a namespace."""
    user = subject(message)
    kind = "clusterrole" if cluster_role else "role"
    name = shlex.quote(f"{role}-{_slug(user)}")
    grant = f"kubectl create rolebinding {name} -n {shlex.quote(namespace)} --{kind}={role} {user}"
    return f"an admin can allow it: {grant}"


def subject(message: str) -> str:
    """`--user=…` or `--serviceaccount=…` of the user whom the API server's refusal names."""
    found = _USER.search(message)
    if not found:
        return "--user=YOUR-USER-NAME"
    account = _ACCOUNT.fullmatch(found.group(1))
    if account:
        return f"--serviceaccount={account.group(1)}:{account.group(2)}"
    return f"--user={shlex.quote(found.group(1))}"


def _slug(user: str) -> str:
    name = user.partition("=")[2]
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "user"
