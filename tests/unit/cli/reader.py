"""A read API as decision 0004 writes it, behind the service proxy of the small API server."""

import hashlib
from typing import Any
from urllib.parse import unquote

from tests.unit.cli.cluster import PROXY, Answer, Request, answer

Object = dict[str, Any]
UID = "5d7c4b9e-0000-4000-8000-000000000001"


def error(status: int, kind: str, message: str) -> Answer:
    """As the read API refuses."""
    return answer({"error": {"class": kind, "message": message}}, status)


class Reader:
    """One run, `fix`. `accepted` is how a token it takes begins; `revoked` are those it takes no more."""

    def __init__(self, namespace: str = "team") -> None:
        self.accepted = f"viewer-{namespace}-"
        self.revoked: set[str] = set()
        self.terminal = True
        self.recorded: list[Object] = []
        self.artifacts: dict[str, bytes] = {}
        self.tampered: dict[str, bytes] = {}
        self.asked: list[Request] = []
        self.waits: list[int] = []

    def __call__(self, request: Request) -> Answer:
        self.asked.append(request)
        token = request.headers.get("X-Agentrun-Token", "")
        if not token.startswith(self.accepted) or token in self.revoked:
            return error(401, "Unauthenticated", "no viewer's token")
        parts = [unquote(part) for part in request.path.removeprefix(PROXY).split("/")[2:]]
        if parts[:1] != ["runs"] or parts[1] not in ("fix", UID):
            return error(404, "NotFound", f"no run {parts[1]}")
        match parts[2:]:
            case ["explain"]:
                return answer(self.explained())
            case ["events"]:
                return self._events(request)
            case ["artifacts"]:
                return answer({"items": [self._listed(name) for name in self.artifacts]})
            case ["artifacts", name] if name in self.artifacts:
                content = self.tampered.get(name, self.artifacts[name])
                return Answer(200, content, {"Digest": digest(self.artifacts[name])})
            case _:
                return error(404, "NotFound", "no such thing")

    def record(self, kind: str, body: Object | None = None) -> None:
        """One more event."""
        seq = len(self.recorded) + 1
        self.recorded.append({"seq": seq, "kind": kind, "kindVersion": 1, "fence": 0, "sourceKey": None,
                              "recordedAt": 1_790_000_000_000_000 + seq, "hash": "0", "body": body or {}})  # fmt: skip

    def explained(self) -> Object:
        """The seven questions."""
        summary = {"uid": UID, "name": "fix", "terminal": self.terminal, "state": "completed"}
        effects: Object = {"committed": [{"step": "t1c0", "tool": "Bash", "receipt": "\x1b[2Jok"}], "unknown": []}
        return {"run": summary, "identity": {"name": "fix", "uid": UID, "requester": "jane"}, "effects": effects,
                "state": {"state": "completed"}, "authority": {}, "control": {}, "limits": {},
                "recovery": []}  # fmt: skip

    def _events(self, request: Request) -> Answer:
        self.waits.append(int(request.query.get("wait", "0")))
        after = int(request.query["after"])
        items = [event for event in self.recorded if event["seq"] > after][:3]
        return answer({"items": items, "next": items[-1]["seq"] if items else after})

    def _listed(self, name: str) -> Object:
        content = self.artifacts[name]
        return {"name": name, "digest": digest(content), "mediaType": "text/plain", "sizeBytes": len(content)}


def digest(content: bytes) -> str:
    """As the journal writes it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
