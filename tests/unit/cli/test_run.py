"""`kubectl agentrun run`: the object it sends, and the exit codes of who waits (R0.1, C71)."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.unit.cli.cluster import Cluster, answer, refusal
from tests.unit.cli.plugin import use_plugin
from tests.unit.cli.terminal import PLUGIN, environment, on_terminal

from agentrun.render.text import unsafe

Verb = Callable[..., Result]


def test_every_option_stands_in_the_object_that_is_sent(verb: Verb, cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "tool.sh").write_text("#!/bin/sh\n")
    (tmp_path / "tool.sh").chmod(0o755)
    (tmp_path / "a.py").write_text("é = 1\n")
    result = verb(
        "run", "fixer", "--name", "fix", "--text", "mend it", "--parameter", 'branch="main"', "--parameter", "n=[1,2]",
        "--file", f"src/a.py={tmp_path}/a.py", "--file", f"tool.sh={tmp_path}/tool.sh",
        "--budget", "modelCalls=20", "--budget", "costMicroUSD=5000",
    )  # fmt: skip
    assert (result.exit_code, result.stdout) == (0, "agentrun.agentrun.dev/fix created\n")
    request = cluster.requests[-1]
    assert request.query["fieldValidation"] == "Strict"
    assert request.body == {
        "apiVersion": "agentrun.dev/v1alpha1",
        "kind": "AgentRun",
        "metadata": {"name": "fix"},
        "spec": {
            "definitionRef": {"name": "fixer"},
            "input": {
                "text": "mend it",
                "parameters": {"branch": "main", "n": [1, 2]},
                "files": [
                    {"path": "src/a.py", "text": "é = 1\n"},
                    {"path": "tool.sh", "text": "#!/bin/sh\n", "executable": True},
                ],
            },
            "budget": {"modelCalls": 20, "costMicroUSD": 5000},
        },
    }


def test_what_is_sent_is_a_valid_manifest(verb: Verb, cluster: Cluster) -> None:
    from agentrun.api.validate import parse

    verb("run", "fixer", "--text", "-", "--budget", "toolCalls=1", stdin="from a pipe")
    body = cluster.requests[-1].body
    assert body["spec"]["input"] == {"text": "from a pipe"}
    assert parse({**body, "metadata": {"name": "x"}}).metadata.name == "x"


def test_without_a_name_one_is_generated_and_told(verb: Verb, cluster: Cluster) -> None:
    assert verb("run", "fixer", "-o", "name").stdout == "agentrun.agentrun.dev/fixer-x7k2p\n"
    verb("run", "f" * 63)
    assert len(cluster.requests[-1].body["metadata"]["generateName"]) == 58


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--parameter", "branch=main"], """write --parameter 'branch="main"'"""),
        (["--parameter", "branch"], "write --parameter NAME=VALUE"),
        (["--parameter", "n=1", "--parameter", "n=2"], "n is given twice"),
        (["--parameter", "n=NaN"], "is no JSON"),
        (["--budget", "modelcalls=1"], "choose of wallClockSeconds, idleSeconds, modelCalls"),
        (["--budget", "modelCalls=many"], "must be a whole number"),
        (["--file", "a=/nowhere/x"], "/nowhere/x: No such file or directory"),
        (["--file", f"a={sys.executable}"], "is no UTF-8 text"),
        (["--wait", "--timeout", "soon"], "write 90s, 5m or 1h30m"),
        (["--timeout", "5m"], "--timeout belongs to --wait"),
    ],
)
def test_wrong_usage_is_2_names_the_option_and_the_fix(
    verb: Verb, cluster: Cluster, arguments: list[str], said: str
) -> None:
    result = verb("run", "fixer", *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert cluster.requests == []


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (refusal(422, "Invalid", "x", [
            {"field": "spec.budget.modelCalls", "message": "should be less than or equal to 1e+12"},
            {"field": "spec.input.files", "message": 'Invalid value: "array": inline text is at most 131072 bytes'}]),
         "  spec.budget.modelCalls: should be less than or equal to 1e+12\n  spec.input.files: "),
        (refusal(400, "BadRequest", 'strict decoding error: unknown field "spec.x"'), 'unknown field "spec.x"'),
        (refusal(409, "AlreadyExists", "there"), "choose another --name"),
        (refusal(403, "Forbidden", 'User "jane" cannot create resource "agentruns"'), "agentrun-runner --user=jane"),
    ],
)  # fmt: skip
def test_a_refused_run_names_field_and_fix(verb: Verb, cluster: Cluster, refused: Any, said: str) -> None:
    cluster.rules.append(lambda request: refused if request.method == "POST" else None)
    result = verb("run", "fixer", "--name", "fix", "--wait")
    assert result.exit_code == 1
    assert said in result.stderr


def later(cluster: Cluster, *acts: Callable[[], None], every: float = 0.1) -> None:
    """Do the acts beside the verb, one after another, once it watches."""

    def work() -> None:
        while not any(request.query.get("watch") for request in cluster.requests):
            time.sleep(0.01)
        for act in acts:
            time.sleep(every)
            act()

    threading.Thread(target=work, daemon=True).start()


STALLED = {"type": "Stalled", "status": "True", "reason": "Blocked"}


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ({"state": "completed", "reason": "Verified"}, 0),
        ({"state": "failed", "reason": "VerificationFailed"}, 3),
        ({"state": "failed", "reason": "BudgetExhausted"}, 3),
        ({"state": "needs_reconciliation", "reason": "OutcomeUnknown"}, 4),
        ({"state": "waiting_approval"}, 4),
        ({"state": "paused", "reason": "BudgetExhausted"}, 4),
        ({"state": "created", "reason": "GitInputUnavailable", "conditions": [STALLED]}, 4),
        ({"state": "failed", "reason": "Cancelled"}, 5),
        ({"state": "failed", "reason": "Killed"}, 5),
    ],
)
def test_wait_shows_each_state_and_ends_with_the_outcomes_code_C71(
    verb: Verb, cluster: Cluster, end: dict[str, Any], code: int
) -> None:
    later(
        cluster,
        lambda: cluster.put("fix", {"state": "waiting_tool", "waitingOn": "tool t1c0"}),
        lambda: cluster.put("fix", {"state": "paused", "reason": "Draining"}),
        lambda: cluster.put("fix", {"state": "created", "reason": "DefinitionNotFound"}),
        lambda: cluster.put("fix", end),
    )
    result = verb("run", "fixer", "--name", "fix", "--wait", "--timeout", "20s")
    assert result.exit_code == code, result.output
    states = [line.split()[1] for line in result.stdout.splitlines()[1:]]
    assert states == ["created", "waiting_tool", "paused", "created", end["state"]]
    assert ("waits for a person" in result.stderr) == (code == 4)


def test_time_out_is_124_and_leaves_the_run_alone(verb: Verb, cluster: Cluster) -> None:
    result = verb("run", "fixer", "--name", "fix", "--wait", "--timeout", "300ms")
    assert result.exit_code == 124
    assert "the run goes on: kubectl agentrun watch -n team fix" in result.stderr
    assert "stop" not in cluster.run("fix")["spec"]


def test_progress_does_not_mix_with_the_format_asked_for(verb: Verb, cluster: Cluster) -> None:
    later(cluster, lambda: cluster.put("fix", {"state": "completed"}))
    result = verb("run", "fixer", "--name", "fix", "--wait", "-o", "name")
    assert result.stdout == "agentrun.agentrun.dev/fix\n"
    assert "completed" in result.stderr


@pytest.mark.parametrize("trouble", ["cut", "expired", "away"])
def test_waiting_survives_what_an_api_server_does_in_hours(verb: Verb, cluster: Cluster, trouble: str) -> None:
    """A connection cut, a watch position too old, an API server that is away for both watch and list."""
    gone = {"kind": "Status", "code": 410, "reason": "Expired"}
    left = ["list", "watch"] if trouble == "away" else []

    def rule(request: Any) -> Any:
        watches = request.query.get("watch") == "true"
        if (watches or len(left) == 1) and left:
            left.pop()
            return refusal(503, "ServiceUnavailable", "x")
        return None

    cluster.rules.append(rule)
    later(
        cluster,
        lambda: cluster.cut_watches(*(("ERROR", gone) if trouble == "expired" else ("CUT",))),
        lambda: cluster.put("fix", {"state": "completed"}),
    )
    result = verb("run", "fixer", "--name", "fix", "--wait", "--timeout", "20s")
    assert result.exit_code == 0, result.output


def test_waiting_outlives_the_token_of_a_credential_plugin(verb: Verb, cluster: Cluster, kubeconfig: Path) -> None:
    """A token of fifteen minutes must not end a wait of hours."""
    token = use_plugin(kubeconfig)

    def rotate() -> None:
        token.write_text("the-next-token")
        cluster.token = "the-next-token"
        cluster.cut_watches()

    later(cluster, rotate, lambda: cluster.put("fix", {"state": "completed"}))
    result = verb("run", "fixer", "--name", "fix", "--wait", "--timeout", "20s")
    assert result.exit_code == 0, result.output
    assert cluster.requests[-1].headers["Authorization"] == "Bearer the-next-token"


@pytest.mark.parametrize("again", [False, True])
def test_a_run_deleted_while_one_waits_is_an_error_not_a_hang(verb: Verb, cluster: Cluster, again: bool) -> None:
    """`again`: the name is taken anew while the connection is down."""

    def gone() -> None:
        with cluster.changed:
            if again:
                cluster.cut_watches()
            cluster.delete("fix")
            if again:
                cluster.put("fix", {"state": "completed"})

    later(cluster, gone)
    result = verb("run", "fixer", "--name", "fix", "--wait", "--timeout", "20s")
    assert result.exit_code == 1
    assert "was deleted" in result.stderr


def test_an_interrupt_leaves_the_run_alone_and_says_how_to_cancel(cluster: Cluster, kubeconfig: Path) -> None:
    """A real process with a real SIGINT."""
    command = [*PLUGIN, "run", "fixer", "--name", "fix", "--wait"]
    with subprocess.Popen(
        command, env=environment(kubeconfig), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "agentrun.agentrun.dev/fix created\n"
        assert "created" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "to end it: kubectl agentrun cancel -n team fix" in error
    assert "Traceback" not in error
    assert "stop" not in cluster.run("fix")["spec"]


def test_a_hostile_status_cannot_reach_the_terminal(cluster: Cluster, kubeconfig: Path) -> None:
    """C50."""
    cluster.put("fix", {"state": "completed", "message": "\x1b]0;owned\x07\rfailed\u202e", "reason": "\x9b2J"})
    code, shown, _ = on_terminal(kubeconfig, "watch", "fix")
    assert code == 0
    assert b"completed" in shown
    assert not {char for char in shown.decode() if unsafe(char) and char != "\n"}


def test_the_answer_of_create_may_be_no_json(verb: Verb, cluster: Cluster) -> None:
    broken = answer(None, 502)
    cluster.rules.append(lambda request: broken if request.method == "POST" else None)
    result = verb("run", "fixer")
    assert result.exit_code == 1
    assert "does not answer" in result.stderr
