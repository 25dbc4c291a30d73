"""Who may dispatch, and how often a step runs: the signed wire protocol against a real server (R11, R16, R20)."""

import base64
import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.unit.toolserver.kit import KEY, POD, Answer, Sandbox, call, claims, shell, sign, until

BODY = json.dumps(shell("echo ran >> marker")).encode()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Sandbox]:
    """A running server."""
    with Sandbox(tmp_path) as running:
        yield running


def runs(box: Sandbox) -> int:
    """How often the marking command has run."""
    marker = box.workspace / "marker"
    return len(marker.read_text().splitlines()) if marker.exists() else 0


def _signed(**changes: Any) -> str:
    return sign(claims("run", BODY, "t1c0", **changes))


def _other_header(**header: str) -> str:
    said = json.dumps(claims("run", BODY, "t1c0")).encode()
    parts = [base64.urlsafe_b64encode(part).rstrip(b"=") for part in (json.dumps(header).encode(), said)]
    signature = base64.urlsafe_b64encode(KEY.sign(b".".join(parts))).rstrip(b"=")
    return b".".join([*parts, signature]).decode()


def _swapped_claims() -> str:
    head, _, signature = _signed().split(".")
    forged = json.dumps(claims("run", BODY, "t1c0", fence=99)).encode()
    return ".".join([head, base64.urlsafe_b64encode(forged).rstrip(b"=").decode(), signature])


def _of_another_key() -> str:
    return sign(claims("run", BODY, "t1c0"), key=Ed25519PrivateKey.generate())


def _hmac() -> str:
    return jwt.encode(claims("run", BODY, "t1c0"), "k" * 32, algorithm="HS256", headers={"kid": "k1"})


def _at(offset: int) -> str:
    now = int(time.time()) + offset
    return _signed(iat=now, exp=now + 60)


# Made when they are sent, not when this file is read: a token lives a minute.
REFUSED: dict[str, tuple[Callable[[], str | None], int, str]] = {
    "unsigned": (lambda: None, 401, "Unsigned"),
    "no token": (lambda: "x", 401, "BadSignature"),
    "no base64": (lambda: "a.b.!", 401, "BadSignature"),
    "unknown kid": (lambda: sign(claims("run", BODY, "t1c0"), kid="k9"), 401, "UnknownKey"),
    "another key under a known kid": (_of_another_key, 401, "BadSignature"),
    "claims changed after signing": (_swapped_claims, 401, "BadSignature"),
    "alg none": (lambda: _other_header(alg="none", kid="k1"), 401, "BadSignature"),
    "critical extension": (lambda: _other_header(alg="EdDSA", kid="k1", crit="x"), 401, "BadSignature"),
    "hmac": (_hmac, 401, "BadSignature"),
    "wrong audience": (lambda: _signed(aud="pod-uid-2"), 403, "WrongAudience"),
    "another run": (lambda: _signed(run="run-uid-2"), 403, "WrongRun"),
    "expired": (lambda: _at(-4000), 403, "Expired"),
    "from the future": (lambda: _at(4000), 403, "NotYetValid"),
    "unknown operation": (lambda: _signed(op="format"), 400, "UnknownOperation"),
    "no step": (lambda: _signed(step=""), 400, "BadClaims"),
    "a fence that is no number": (lambda: _signed(fence="1"), 400, "BadClaims"),
    "a negative fence": (lambda: _signed(fence=-1), 400, "BadClaims"),
    "a fence that is true": (lambda: _signed(fence=True), 400, "BadClaims"),
    "another body's digest": (lambda: _signed(bodyDigest="sha256:" + "0" * 64), 403, "BodyMismatch"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_dispatch_that_nobody_allowed_begins_nothing_R16(box: Sandbox, case: str) -> None:
    token, status, kind = REFUSED[case]
    answer = box.post(BODY, token())
    assert (answer.status, answer.refused) == (status, kind)
    assert box.send("run", call(argv=["true"])).status == 200  # it goes on serving
    assert runs(box) == 0


def test_body_swapped_after_signing_is_refused_C17(box: Sandbox) -> None:
    answer = box.post(json.dumps(shell("echo other >> marker")).encode(), _signed())
    assert (answer.status, answer.refused) == (403, "BodyMismatch")
    assert runs(box) == 0


def test_stale_fence_is_refused_R11(box: Sandbox) -> None:
    box.ok("run", call(argv=["true"]), fence=7)
    answer = box.send("run", BODY, fence=6)
    assert (answer.status, answer.refused) == (409, "StaleFence")
    assert "6 is behind 7" in answer.json["error"]["message"]
    assert runs(box) == 0
    assert box.send("run", BODY, fence=7).status == 200


@pytest.mark.parametrize("op", ["kill", "ps", "get", "read"])
def test_stale_harness_may_not_even_look_or_kill_R11(box: Sandbox, op: str) -> None:
    box.ok("ps", fence=7)
    assert box.send(op, b"{}", fence=6).refused == "StaleFence"


def test_announced_fence_locks_older_owners_out_C3(box: Sandbox) -> None:
    box.ok("ps", fence=4, minFence=9)
    assert box.send("ps", fence=8, minFence=1).refused == "StaleFence"
    assert box.healthz()["fence"] == 9


def test_highest_fence_outlives_the_process_C58(box: Sandbox) -> None:
    box.ok("ps", fence=7)
    box.restart()
    assert box.healthz()["fence"] == 7
    assert box.send("ps", fence=6).refused == "StaleFence"


def test_refused_fence_changes_no_fence_R11(box: Sandbox) -> None:
    box.post(BODY, sign(claims("run", BODY, "x", fence=50), key=Ed25519PrivateKey.generate()))
    box.post(b"{}", sign(claims("run", BODY, "x", fence=50)))
    assert box.healthz()["fence"] == 0


def test_same_step_is_answered_from_memory_byte_for_byte_R11(box: Sandbox) -> None:
    first = box.send("run", BODY, "t1c0")
    again = box.send("run", BODY, "t1c0", attempt=2)
    assert runs(box) == 1
    assert again.raw == first.raw
    assert "Agentrun-Replayed" not in first.headers
    assert again.headers["Agentrun-Replayed"] == "1"


def test_stored_answer_outlives_the_process_C58(box: Sandbox) -> None:
    first = box.send("run", BODY, "t1c0")
    box.restart()
    again = box.send("run", BODY, "t1c0", fence=2)
    assert again.raw == first.raw
    assert again.headers["Agentrun-Boot-ID"] != first.headers["Agentrun-Boot-ID"]
    assert runs(box) == 1


def test_same_step_with_another_body_is_a_conflict_R11(box: Sandbox) -> None:
    box.ok("run", BODY, "t1c0")
    answer = box.send("run", shell("echo ran >> marker; true"), "t1c0")
    assert (answer.status, answer.refused) == (409, "StepConflict")
    assert box.send("write", call(path="x", content=""), "t1c0").refused == "StepConflict"
    assert runs(box) == 1


def test_same_step_that_is_running_is_waited_for_R11(box: Sandbox) -> None:
    body = shell("echo ran >> marker; while [ ! -e go ]; do sleep 0.01; done; echo done")
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(box.send("run", body, "t1c0"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: runs(box) == 1)
    assert box.send("run", shell("true"), "t1c0").refused == "StepConflict"
    (box.workspace / "go").touch()
    for thread in threads:
        thread.join(20)
    assert len(answers) == 3
    assert len({answer.raw for answer in answers}) == 1
    assert answers[0].json["stdout"] == "done\n"
    assert runs(box) == 1


def test_client_that_goes_away_ends_no_step_and_loses_no_result_R11(box: Sandbox) -> None:
    body = json.dumps(shell("echo ran >> marker; while [ ! -e go ]; do sleep 0.01; done")).encode()
    head = f"POST /v1/op HTTP/1.1\r\nAgentrun-Dispatch: {sign(claims('run', body, 't1c0'))}\r\n"
    with socket.create_connection(("127.0.0.1", box.port)) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        until(lambda: runs(box) == 1)
    (box.workspace / "go").touch()
    assert box.ok("run", body, "t1c0")["exitCode"] == 0
    assert runs(box) == 1


def test_client_that_goes_away_takes_no_later_connection_with_it(box: Sandbox) -> None:
    """The later one gets the earlier one's descriptor number, and waits for the same step."""
    body = json.dumps(shell("echo ran >> marker; while [ ! -e go ]; do sleep 0.01; done")).encode()
    head = f"POST /v1/op HTTP/1.1\r\nAgentrun-Dispatch: {sign(claims('run', body, 't1c0'))}\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    for _ in range(4):
        with socket.create_connection(("127.0.0.1", box.port)) as gone:
            gone.sendall(request)
            until(lambda: runs(box) == 1)
        until(lambda: box.healthz() is not None)  # the server has seen it go
    with socket.create_connection(("127.0.0.1", box.port), timeout=30) as waits:
        waits.sendall(request)
        until(lambda: box.healthz() is not None)
        (box.workspace / "go").touch()
        for _ in range(2):  # the answer, and the connection lives on for another request
            assert waits.recv(65536).startswith(b"HTTP/1.1 200")
            time.sleep(0.1)
            waits.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert runs(box) == 1


@pytest.mark.parametrize("op", ["run", "tool", "verify"])
def test_step_cut_off_by_a_restart_is_never_run_again_C58(box: Sandbox, op: str) -> None:
    argv = ["sh", "-c", "echo ran >> marker; sleep 60"]
    bodies: dict[str, dict[str, Any]] = {
        "run": call(argv=argv), "tool": {"argv": argv, "arguments": {}}, "verify": {"argv": argv},
    }  # fmt: skip
    thread = threading.Thread(target=lambda: _swallow(box, op, bodies[op]))
    thread.start()
    until(lambda: runs(box) == 1)
    before = box.healthz()
    box.restart()
    thread.join(20)
    result = box.failed(op, bodies[op], "t1c0", attempt=2, fence=2)
    assert result["errorClass"] == "SandboxReplaced"
    assert result["startedBy"] == before["bootID"]
    assert result["bootID"] == box.healthz()["bootID"] != before["bootID"]
    assert box.failed(op, bodies[op], "t1c0", attempt=3, fence=2)["errorClass"] == "SandboxReplaced"
    assert runs(box) == 1


def _swallow(box: Sandbox, op: str, body: dict[str, Any]) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):  # the server goes away, as it should
        box.send(op, body, "t1c0")


def test_reading_step_cut_off_by_a_restart_runs_again_C58(box: Sandbox) -> None:
    body = {"arguments": {"pattern": "(a+)+$"}, "timeoutSeconds": 100}
    (box.workspace / "slow.txt").write_text("a" * 40 + "!")
    thread = threading.Thread(target=lambda: _swallow(box, "search", body))
    thread.start()
    until(lambda: any((box.state / "steps").glob("*.started")))
    box.restart()
    thread.join(20)
    (box.workspace / "slow.txt").write_text("fast")
    assert box.ok("search", body, "t1c0")["filesSearched"] == 1


def test_boot_id_tells_a_restart_in_place_C58(box: Sandbox) -> None:
    first = box.healthz()
    assert (first["podUID"], first["run"]) == (POD, "run-uid-1")
    assert box.healthz() == first
    box.restart()
    assert box.healthz()["bootID"] != first["bootID"]


def test_unsigned_request_gets_no_memory_for_its_body_R20(box: Sandbox) -> None:
    with socket.create_connection(("127.0.0.1", box.port)) as connection:
        connection.sendall(b"POST /v1/op HTTP/1.1\r\nContent-Length: 4000000\r\n\r\n")
        answer = connection.recv(4096)  # without a byte of the body sent
    assert answer.startswith(b"HTTP/1.1 401 ")


HTTP: dict[str, tuple[bytes, int]] = {
    "no http": (b"hello\r\n\r\n", 400),
    "another path": (b"GET / HTTP/1.1\r\n\r\n", 404),
    "another method": (b"GET /v1/op HTTP/1.1\r\n\r\n", 405),
    "no length": (b"POST /v1/op HTTP/1.1\r\n\r\n", 411),
    "chunks": (b"POST /v1/op HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
    "too long": (b"POST /v1/op HTTP/1.1\r\nContent-Length: 4194305\r\n\r\n", 413),
    "negative length": (b"POST /v1/op HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 411),
    "two lengths": (b"POST /v1/op HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    "endless head": (b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 4000, 431),
}


@pytest.mark.parametrize("case", HTTP)
def test_malformed_http_is_refused_R20(box: Sandbox, case: str) -> None:
    request, status = HTTP[case]
    with socket.create_connection(("127.0.0.1", box.port)) as connection:
        connection.sendall(request)
        assert connection.recv(4096).split(b" ")[1] == str(status).encode()
    assert box.healthz()["podUID"] == POD


def test_one_connection_carries_many_requests_R20(box: Sandbox) -> None:
    with socket.create_connection(("127.0.0.1", box.port)) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n\r\n" * 3)  # pipelined
        data = b""
        while data.count(b"HTTP/1.1 200 OK") < 3:
            piece = connection.recv(65536)
            assert piece, data
            data += piece


def test_more_than_one_step_runs_at_a_time_and_the_number_is_bounded_R20(box: Sandbox) -> None:
    body = shell("while [ ! -e go ]; do sleep 0.02; done")
    answers: list[Answer] = []
    threads = [
        threading.Thread(target=lambda name=f"w{number}": answers.append(box.send("run", body, name)))
        for number in range(16)
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(list((box.state / "steps").glob("*.started"))) == 16)
    refused = box.send("run", body, "one-more")
    assert (refused.status, refused.refused) == (503, "Busy")
    assert box.ok("ps")["processes"]
    (box.workspace / "go").touch()
    for thread in threads:
        thread.join(30)
    assert [answer.json["exitCode"] for answer in answers] == [0] * 16
    assert box.ok("run", body, "one-more")["exitCode"] == 0  # nothing had begun: the same step may come again


NO_OBJECT = {
    "empty": b"", "a list": b"[]", "cut off": b"{", "a name twice": b'{"a":1,"a":2}', "no UTF-8": b"\xff",
    "nested": b'{"x":' * 100_000, "nested lists": b'{"x":' + b"[" * 100_000,
}  # fmt: skip


@pytest.mark.parametrize("case", NO_OBJECT)
def test_signed_body_that_is_no_object_is_a_typed_result_R15(box: Sandbox, case: str) -> None:
    assert box.failed("run", NO_OBJECT[case])["errorClass"] == "InvalidArguments"
