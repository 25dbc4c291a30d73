"""The Kubernetes API as JSON: a client, typed errors and a list-then-watch cache. No generated models (lessons 3)."""

from agentrun.kube.client import KubeClient
from agentrun.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound, Unavailable

__all__ = ["AlreadyExists", "Conflict", "Forbidden", "Invalid", "KubeClient", "KubeError", "NotFound", "Unavailable"]
