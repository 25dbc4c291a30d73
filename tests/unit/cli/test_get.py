"""`kubectl agentrun get`, and how the kubeconfig is found (R0.4)."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result
from tests.unit.cli.cluster import RUNS, TOKEN, Cluster, refusal

Verb = Callable[..., Result]
EVIL = "\x1b[2J\rok\u202e"


def test_runs_of_the_contexts_namespace_are_a_table(verb: Verb, cluster: Cluster) -> None:
    cluster.put("one", {"state": "completed", "reason": "Verified"})
    cluster.put("two", {"state": "waiting_tool"})
    cluster.put("other", namespace="elsewhere")
    rows = [line.split() for line in verb("get").stdout.splitlines()]
    assert rows[0] == ["NAME", "STATE", "REASON", "DEFINITION", "AGE"]
    assert [row[:2] for row in rows[1:]] == [["one", "completed"], ["two", "waiting_tool"]]
    assert cluster.requests[-1].headers["Authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize("arguments", [("-n", "elsewhere", "get"), ("get", "-n", "elsewhere"),
                                       ("-n", "wrong", "get", "--namespace", "elsewhere")])  # fmt: skip
def test_the_namespace_is_taken_before_and_after_the_verb(verb: Verb, cluster: Cluster, arguments: list[str]) -> None:
    cluster.put("other", namespace="elsewhere")
    assert verb(*arguments, "-o", "name").stdout == "agentrun.agentrun.dev/other\n"
    assert cluster.requests[-1].path == RUNS.format("elsewhere")


def test_one_run_as_json_and_yaml_is_the_object_without_managed_fields(verb: Verb, cluster: Cluster) -> None:
    cluster.put("one", {"state": "failed", "message": EVIL})
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        shown = verb("get", "one", "-o", form).stdout
        assert read(shown)["status"]["message"] == EVIL
        assert "managedFields" not in shown
        assert not set(shown) & set("\x1b\r\u202e")


def test_a_list_as_json_is_a_list_even_when_it_is_empty(verb: Verb, cluster: Cluster) -> None:
    assert json.loads(verb("get", "-o", "json").stdout)["items"] == []
    cluster.put("one")
    found = json.loads(verb("get", "-o", "json").stdout)
    assert (found["kind"], len(found["items"])) == ("List", 1)


def test_a_status_cannot_steer_the_terminal_R17(verb: Verb, cluster: Cluster) -> None:
    cluster.put("one", {"state": EVIL, "reason": "a\nforged   completed"})
    shown = verb("get").stdout
    assert len(shown.splitlines()) == 2
    assert r"\x1b[2J\rok\u202e" in shown


def test_no_run_is_said_on_standard_error_and_no_failure(verb: Verb) -> None:
    result = verb("get")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no agent runs in namespace team" in result.stderr


def test_a_run_that_is_not_there_is_an_error_that_says_where_it_looked(verb: Verb) -> None:
    result = verb("get", "nothing")
    assert result.exit_code == 1
    assert result.stderr == (
        'error: there is no run "nothing" in namespace "team": `kubectl agentrun get` lists them\n'
    )


@pytest.mark.parametrize(
    ("status", "reason", "message", "said"),
    [
        (404, "NotFound", "the server could not find the requested resource", "installs the chart agentrun-crds"),
        (401, "Unauthorized", "Unauthorized", "sign in again"),
        (403, "Forbidden", 'agentruns.agentrun.dev is forbidden: User "jane@corp" cannot list resource "agentruns"',
         "kubectl create rolebinding agentrun-runner-jane-corp -n team --clusterrole=agentrun-runner --user=jane@corp"),
        (403, "Forbidden", 'forbidden: User "system:serviceaccount:ci:bot" cannot list',
         "--serviceaccount=ci:bot"),
        (403, "Forbidden", 'forbidden: User "a; rm -rf /" cannot list', "--user='a; rm -rf /'"),
        (503, "ServiceUnavailable", "etcd is away", "the API server does not answer (etcd is away)"),
        (418, "Teapot", "short", "answers 418 Teapot: short"),
    ],
)  # fmt: skip
def test_refusals_are_plain_words_with_what_to_do(
    verb: Verb, cluster: Cluster, status: int, reason: str, message: str, said: str
) -> None:
    cluster.rules.append(lambda _: refusal(status, reason, message))
    result = verb("get")
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_a_server_that_is_not_there_is_one_line(verb: Verb, kubeconfig: Path) -> None:
    kubeconfig.write_text(kubeconfig.read_text().replace("https://127.0.0.1:", "https://127.0.0.1:1/"))
    result = verb("get")
    assert result.exit_code == 1
    assert "does not answer" in result.stderr


def test_without_a_namespace_in_the_context_it_is_default(verb: Verb, cluster: Cluster) -> None:
    verb("get", "--context", "plain")
    assert cluster.requests[-1].path == RUNS.format("default")


def test_of_several_kubeconfigs_the_first_with_a_context_wins_as_for_kubectl(
    verb: Verb, cluster: Cluster, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    second.write_text(kubeconfig.read_text().replace('"current-context": "main"', '"current-context": "plain"'))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'absent'}:{kubeconfig}:{second}")
    verb("get")
    assert cluster.requests[-1].path == RUNS.format("team")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no kubeconfig at"),
        ("", "is no kubeconfig"),
        ("{a: [", "cannot be read as a kubeconfig"),
        ("{apiVersion: v1}", "has no current context"),
        ("{current-context: gone}", "has no context gone"),
    ],
)
def test_a_kubeconfig_that_does_not_serve_is_one_line_that_says_why(
    verb: Verb, kubeconfig: Path, text: str | None, said: str
) -> None:
    kubeconfig.unlink() if text is None else kubeconfig.write_text(text)
    result = verb("get")
    assert result.exit_code == 1
    assert said in result.stderr


def test_the_option_wins_over_the_variable(verb: Verb, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert verb("get", "--kubeconfig", str(kubeconfig)).exit_code == 0
