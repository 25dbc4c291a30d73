"""explain, events, artifacts through the service proxy, and what is said when the road is closed (R1, R27, 0004)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.unit.cli.cluster import PROXY, Answer, Cluster, refusal
from tests.unit.cli.plugin import use_plugin
from tests.unit.cli.reader import UID, Reader, digest, error
from tests.unit.cli.terminal import on_terminal

Verb = Callable[..., Result]
VIEWER_PATH = "/api/v1/namespaces/team/serviceaccounts/agentrun-viewer/token"


@pytest.fixture
def reader(cluster: Cluster) -> Reader:
    """The read API of that cluster."""
    made = Reader()
    cluster.read = made
    return made


def test_explain_asks_with_the_viewers_token_of_the_tenants_namespace(
    verb: Verb, cluster: Cluster, reader: Reader
) -> None:
    result = verb("explain", "fix", "-o", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == reader.explained()
    asked = next(request for request in cluster.requests if request.path == VIEWER_PATH)
    assert asked.body["spec"] == {"audiences": ["agentrun"], "expirationSeconds": 600}
    assert reader.asked[-1].path == f"{PROXY}/v1/runs/fix/explain"


def test_explain_as_text_has_seven_answers_and_nothing_steers_the_terminal(verb: Verb, reader: Reader) -> None:
    shown = verb("explain", "fix").stdout
    assert [line[:2] for line in shown.splitlines() if line[:1].isdigit()] == [f"{n}." for n in range(1, 8)]
    assert r"\x1b[2Jok" in shown
    assert reader.asked


def test_the_operators_namespace_can_be_named(verb: Verb, cluster: Cluster, reader: Reader) -> None:
    verb("explain", "fix", "--operator-namespace", "platform")
    path = PROXY.replace("agentrun-system", "platform") + "/v1/runs/fix/explain"
    assert cluster.requests[-1].path == path
    assert reader.asked == []


@pytest.mark.parametrize(
    ("place", "answer", "said"),
    [
        ("token", refusal(403, "Forbidden", 'serviceaccounts "agentrun-viewer" forbidden: User "jane" cannot create'),
         ["missing right: `create` on serviceaccounts/token of agentrun-viewer in namespace team",
          "create rolebinding agentrun-runner-jane -n team --clusterrole=agentrun-runner --user=jane"]),
        ("token", refusal(404, "NotFound", 'serviceaccounts "agentrun-viewer" not found'),
         ["has no ServiceAccount agentrun-viewer", "kubectl create serviceaccount agentrun-viewer -n team"]),
        ("token", refusal(404, "NotFound", 'namespaces "team" not found'), ["there is no namespace team"]),
        ("token", refusal(401, "Unauthorized", "x"), ["sign in again"]),
        ("token", refusal(503, "ServiceUnavailable", "slow"), ["no token for reading the journal", "slow"]),
        ("proxy", refusal(403, "Forbidden", 'services "https:agentrun-read:https" forbidden: User "jane" cannot get'),
         ["missing right: `get` on services/proxy of https:agentrun-read:https in namespace agentrun-system",
          "create rolebinding agentrun-read-jane -n agentrun-system --role=agentrun-read --user=jane"]),
        ("proxy", refusal(404, "NotFound", 'services "https:agentrun-read:https" not found'),
         ["there is no read API in namespace agentrun-system", "--operator-namespace"]),
        ("proxy", refusal(503, "ServiceUnavailable", "no endpoints available for service"),
         ["does not answer (no endpoints available for service)", "kubectl get pods -n agentrun-system"]),
        ("proxy", error(403, "Denied", "not a viewer"), ["does not take the viewer's token", "not a viewer"]),
        ("proxy", error(404, "NotFound", "no run fix"), ["the journal of namespace team does not have it: no run fix"]),
        ("proxy", error(410, "Gone", "erased on Monday"), ["its journal was erased: erased on Monday"]),
        ("proxy", error(503, "Unavailable", "database away"), ["cannot answer now: database away"]),
        ("proxy", error(400, "InvalidRequest", "\x1b[2J"), [r"the read API answers 400: \x1b[2J"]),
    ],
)  # fmt: skip
def test_a_closed_road_names_the_right_and_the_admins_command(
    verb: Verb, cluster: Cluster, reader: Reader, place: str, answer: Any, said: list[str]
) -> None:
    prefix = VIEWER_PATH if place == "token" else PROXY
    cluster.rules.append(lambda request: answer if request.path.startswith(prefix) else None)
    result = verb("explain", "fix")
    assert (result.exit_code, result.stdout) == (1, "")
    assert not [words for words in said if words not in result.stderr], result.stderr
    assert reader.asked == []


def test_an_old_token_is_replaced_once_and_a_refused_new_one_is_an_error(verb: Verb, reader: Reader) -> None:
    reader.revoked = {"viewer-team-1"}
    assert verb("explain", "fix").exit_code == 0
    reader.accepted = "none at all"
    result = verb("explain", "fix")
    assert result.exit_code == 1
    assert "does not take the viewer's token" in result.stderr


def test_an_answer_that_is_no_json_is_an_error_not_a_traceback(verb: Verb, reader: Reader, cluster: Cluster) -> None:
    cluster.read = lambda _: Answer(200, b"<html>", {})
    result = verb("explain", "fix")
    assert result.exit_code == 1
    assert "may not fit together" in result.stderr
    assert reader.asked == []


# --- events --------------------------------------------------------------------------------------------------------


def test_events_are_read_page_by_page_one_line_each(verb: Verb, reader: Reader) -> None:
    for number in range(7):
        reader.record("ModelCompleted", {"text": f"word {number}\n\x1b[2J"})
    lines = verb("events", "fix").stdout.splitlines()
    assert [line.split()[:3:2] for line in lines] == [[str(n), "ModelCompleted"] for n in range(1, 8)]
    assert "2026-09-21T14:13:20.000Z" in lines[0]
    assert r"word 6\n\u001b[2J" in lines[6]


def test_a_long_body_says_how_much_is_left_out_and_json_has_it_all_C50(verb: Verb, reader: Reader) -> None:
    reader.record("ToolCompleted", {"text": "x" * 3000 + "rm -rf"})
    assert "characters)" in verb("events", "fix").stdout
    whole = json.loads(verb("events", "fix", "-o", "json").stdout)
    assert whole == reader.recorded[0]


def test_follow_goes_on_until_the_run_is_finished_and_quiet(verb: Verb, reader: Reader, cluster: Cluster) -> None:
    reader.terminal = False
    reader.record("RunCreated")

    def news(request: Any) -> None:
        if request.path.endswith("/events") and request.query["after"] == "1":
            if reader.waits[-1:] == [1]:
                reader.record("ToolCompleted")
            reader.terminal = len(reader.recorded) > 1

    cluster.rules.append(news)
    lines = verb("events", "fix", "--follow").stdout.splitlines()
    assert [line.split()[2] for line in lines] == ["RunCreated", "ToolCompleted"]
    assert {request.path.split("/")[-2] for request in reader.asked[1:]} == {UID}, "by UID: a name may move on"
    assert reader.waits[0] == 0
    assert 1 in reader.waits


def test_follow_outlives_a_read_api_that_restarts(
    verb: Verb, reader: Reader, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentrun.cli.reading.RETRY_SECONDS", 0.01)
    reader.record("RunCreated")
    away = [refusal(503, "ServiceUnavailable", "no endpoints"), error(503, "Unavailable", "database away")]

    def restart(request: Any) -> Any:
        return away.pop() if request.path.endswith("/events") and away else None

    cluster.rules.append(restart)
    result = verb("events", "fix", "--follow")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 1
    assert away == []


@pytest.mark.parametrize("place", [VIEWER_PATH, PROXY])
def test_reading_outlives_the_token_of_a_credential_plugin(
    verb: Verb, reader: Reader, cluster: Cluster, kubeconfig: Path, place: str
) -> None:
    token = use_plugin(kubeconfig)
    reader.record("RunCreated")

    def rotate(request: Any) -> None:
        if request.path.startswith(place) and cluster.token != "rotated":
            token.write_text("rotated")
            cluster.token = "rotated"

    cluster.rules.append(rotate)
    result = verb("events", "fix", "--follow")
    assert result.exit_code == 0, result.output
    assert cluster.requests[-1].headers["Authorization"] == "Bearer rotated"


def test_an_answer_that_goes_back_is_refused_not_read_for_ever(verb: Verb, reader: Reader) -> None:
    reader.record("RunCreated")
    reader.record("RunAdmitted")
    reader.recorded[1]["seq"] = 1
    reader.recorded[0]["seq"] = 2
    result = verb("events", "fix")
    assert result.exit_code == 1
    assert "cannot be trusted" in result.stderr


# --- artifacts -----------------------------------------------------------------------------------------------------

DIFF = "--- a\n+++ b\n+é\x1b[31m\r\n".encode()


def test_artifacts_are_a_table(verb: Verb, reader: Reader) -> None:
    assert "no artifacts" in verb("artifacts", "fix").stderr
    reader.artifacts = {"diff": DIFF, "workspace": b"tar"}
    rows = [line.split() for line in verb("artifacts", "fix").stdout.splitlines()]
    assert rows[0] == ["NAME", "BYTES", "MEDIA-TYPE", "DIGEST"]
    assert rows[1] == ["diff", str(len(DIFF)), "text/plain", digest(DIFF)]


def test_into_a_pipe_go_the_exact_bytes(verb: Verb, reader: Reader) -> None:
    reader.artifacts = {"a/b?c": DIFF, "raw": bytes(range(256))}
    assert verb("artifacts", "fix", "a/b?c").stdout_bytes == DIFF
    assert verb("artifacts", "fix", "raw").stdout_bytes == bytes(range(256))


def test_into_a_file_go_the_exact_bytes_and_nothing_is_left_beside_it(
    verb: Verb, reader: Reader, tmp_path: Path
) -> None:
    reader.artifacts = {"diff": DIFF}
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "x.diff").write_text("before")
    assert verb("artifacts", "fix", "diff", "--output", str(folder / "x.diff")).exit_code == 0
    assert (folder / "x.diff").read_bytes() == DIFF
    assert [path.name for path in folder.iterdir()] == ["x.diff"]
    result = verb("artifacts", "fix", "diff", "--output", str(tmp_path / "absent" / "x"))
    assert result.exit_code == 1
    assert "cannot be written" in result.stderr


def test_what_is_no_file_is_written_to_and_never_replaced(verb: Verb, reader: Reader) -> None:
    reader.artifacts = {"diff": DIFF}
    assert verb("artifacts", "fix", "diff", "--output", "/dev/null").exit_code == 0
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("to_file", [False, True])
def test_bytes_that_are_not_the_journals_are_refused_and_nothing_is_written(
    verb: Verb, reader: Reader, tmp_path: Path, to_file: bool
) -> None:
    reader.artifacts, reader.tampered = {"diff": DIFF}, {"diff": DIFF + b"!"}
    target = tmp_path / "x.diff"
    result = verb("artifacts", "fix", "diff", *(("--output", str(target)) if to_file else ()))
    assert result.exit_code == 1
    assert result.stdout_bytes == b""
    assert digest(DIFF + b"!") in result.stderr
    assert not target.exists()


def test_an_artifact_that_is_not_there_names_those_that_are(verb: Verb, reader: Reader) -> None:
    reader.artifacts = {"diff": DIFF}
    assert "it has diff" in verb("artifacts", "fix", "dif").stderr
    assert verb("artifacts", "fix", "--output", "x").exit_code == 2


@pytest.mark.parametrize(("name", "code"), [("diff", 0), ("raw", 1)])
def test_on_a_terminal_text_is_made_safe_and_binary_is_refused(
    reader: Reader, kubeconfig: Path, name: str, code: int
) -> None:
    """C50."""
    reader.artifacts = {"diff": DIFF, "raw": b"\xff\xfe"}
    returned, shown, errors = on_terminal(kubeconfig, "artifacts", "fix", name)
    assert returned == code, errors
    assert shown.decode() == ("--- a\n+++ b\n+é\\x1b[31m\\r\n" if code == 0 else "")
    assert ("--output FILE" in errors) == (code == 1)
