"""Whole runs through the real harness, broker, journal and tool server (R5, R6, R15, R16)."""

from pathlib import Path

import msgspec
from tests.integration.harness_kit import builtin, call, calls, kit, template, working

from agentrun.core.events import ModelCompleted, StepDispatched, ToolCompleted, VerificationCompleted

CALC = b"def add(a, b):\n    return a - b\n"
TEST = b"from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
CHECK = (
    "import pathlib, sys\nsys.path.insert(0, '.')\n"
    "import calc\nok = calc.add(2, 3) == 5 and 'add(2, 3) == 5' in pathlib.Path('test_calc.py').read_text()\n"
    "case = \"<testcase classname='t' name='add'>\" + ('' if ok else \"<failure message='x'/>\") + '</testcase>'\n"
    "pathlib.Path('report.xml').write_text(f'<testsuites><testsuite>{case}</testsuite></testsuites>')\n"
    "sys.exit(0 if ok else 1)\n"
)
VERIFICATION = {
    "argv": ["python3", "-c", CHECK],
    "report": {"path": "report.xml", "format": "JUnitXML"},
    "protectedPaths": ["test_calc.py"],
}
FIX = template(
    calls(call("list"), call("read", path="calc.py")),
    calls(call("edit", path="calc.py", old="a - b", new="a + b")),
    calls(call("run", argv=["python3", "-c", "import calc; print(calc.add(2, 3))"])),
    {"text": "I fixed the sign."},
    verification=VERIFICATION,
)
FILES = {"calc.py": CALC, "test_calc.py": TEST}


async def test_a_run_lists_reads_edits_runs_and_is_verified_in_a_fresh_sandbox_R24(tmp_path: Path) -> None:
    async with kit(tmp_path) as made, working(made):
        run = await made.create(FIX, FILES)
        state = await made.finished(run)
        assert state.outcome is not None
        assert (state.outcome.completed, state.outcome.reason) == (True, "Verified"), state.outcome
        outputs = {done.step: await made.blob(done.output) for done in await made.events(run, ToolCompleted)}
        assert b"calc.py" in outputs["t1c0"]
        assert b"return a - b" in outputs["t1c1"]
        assert b"\n5\n" in outputs["t3c0"]
        artifacts = {artifact.name: artifact for artifact in state.artifacts}
        assert set(artifacts) == {"diff", "workspace", "verification-log", "verification-report"}
        diff = await made.blob(artifacts["diff"].digest)
        assert b"-    return a - b\n+    return a + b\n" in diff
        assert b"test_calc.py" not in diff
        assert b"1 passed" in state.outcome.message.encode()


async def test_every_step_is_dispatched_before_its_result_with_all_of_R3_and_one_commit_R6(tmp_path: Path) -> None:
    async with kit(tmp_path) as made, working(made):
        run = await made.create(FIX, FILES)
        await made.finished(run)
        seen: set[tuple[str, int]] = set()
        for record in await made.history(run):
            body = msgspec.json.decode(record.body)
            key = (body.get("step", ""), body.get("attempt", 0))
            if record.kind == "StepDispatched":
                assert all(body[name] for name in ("key", "fingerprint", "actor", "scope", "deadline")), body
                seen.add(key)
            elif body.get("step"):
                assert key in seen, f"{record.kind} of {key} without a dispatch"
        at = {r.seq: (r.kind, r.recorded_at) for r in await made.history(run)}
        done = [seq for seq, (kind, _) in at.items() if kind == "ToolCompleted"]
        assert any(at[seq + 1] == ("StepDispatched", at[seq][1]) for seq in done), "one commit for result and dispatch"
        keys = [d.key for d in await made.events(run, StepDispatched)]
        assert len(keys) == len(set(keys))


async def test_a_model_that_deletes_the_failing_test_fails_verification_C63(tmp_path: Path) -> None:
    cheat = template(
        calls(call("run", argv=["rm", "test_calc.py"])),
        calls(call("write", path="report.xml", content="<testsuite><testcase name='a'/></testsuite>")),
        {"text": "All tests pass."},
        verification=VERIFICATION,
    )
    async with kit(tmp_path) as made, working(made):
        run = await made.create(cheat, FILES)
        state = await made.finished(run)
        assert state.outcome is not None
        assert (state.outcome.completed, state.outcome.reason) == (False, "VerificationFailed")
        judged = (await made.events(run, VerificationCompleted))[0]
        assert not judged.passed
        assert "1 failed" in judged.summary


async def test_a_verification_without_report_or_tests_does_not_pass_R24(tmp_path: Path) -> None:
    for name, script in {
        "none": "pass",
        "empty": "open('report.xml','w').write('<testsuites/>')",
        "bad": "open('report.xml','w').write('<!DOCTYPE a><testsuites/>')",
    }.items():
        judged_by = {"argv": ["python3", "-c", script], "report": VERIFICATION["report"]}
        async with kit(tmp_path / name) as made, working(made):
            run = await made.create(template({"text": "done"}, verification=judged_by), FILES)
            state = await made.finished(run)
            assert state.outcome is not None
            assert state.outcome.reason == "VerificationFailed", (name, state.outcome)


async def test_a_run_without_tools_needs_no_sandbox(tmp_path: Path) -> None:
    async with kit(tmp_path) as made, working(made):
        run = await made.create(template({"text": "42"}, tools=[]))
        state = await made.finished(run)
        assert state.outcome is not None
        assert (state.outcome.reason, state.outcome.message) == ("Completed", "42")
        assert made.sandboxes.sent == []


async def test_unknown_not_granted_denied_and_invalid_are_different_answers_C45(tmp_path: Path) -> None:
    script = template(
        calls(call("nonsense"), call("write", path="a", content="b"), call("read", path="/etc/passwd")),
        calls({"name": "read", "arguments": '{"path": 9007199254740993}'}, {"name": "read", "arguments": "{"}),
        {"text": "ok"},
        tools=[builtin("Read"), builtin("Write")],
    )
    async with kit(tmp_path) as made, working(made):
        run = await made.create(script, FILES, grants=["read"])
        grant = made.cluster.objects["ToolGrant", "tools"]
        grant["spec"]["tools"] = [{"name": "read", "match": [{"path": "/path", "prefix": "src/"}]}]
        await made.finished(run)
        proposed = [call for done in await made.events(run, ModelCompleted) for call in done.calls]
        assert [call.problem for call in proposed] == ["NotFound", "", "", "InvalidArguments", "InvalidArguments"]
        assert "/path" in proposed[3].detail
        assert "2^53" in proposed[3].detail
        refused = {done.step: (done.status, done.error_class) for done in await made.events(run, ToolCompleted)}
        assert refused == {"t1c1": ("Refused", "NotGranted"), "t1c2": ("Refused", "Denied")}
        assert not any(b"passwd" in body for _, body in made.sandboxes.sent)


async def test_a_reply_cut_at_the_cap_dispatches_nothing_and_completes_nothing_C39(tmp_path: Path) -> None:
    script = template(
        calls(call("write", path="half", content="x"), finishReason="Length", text="I will"),
        {"text": "whole"},
    )
    async with kit(tmp_path) as made, working(made):
        run = await made.create(script, FILES)
        state = await made.finished(run)
        assert state.outcome is not None
        assert state.outcome.completed
        assert state.turn == 2
        assert await made.events(run, ToolCompleted) == []
    async with kit(tmp_path / "always") as made, working(made):
        run = await made.create(template(*({"text": "…", "finishReason": "Length"} for _ in range(5))), FILES)
        state = await made.finished(run)
        assert state.outcome is not None
        assert state.outcome.reason == "OutputTruncated"
        assert "cut" in state.outcome.message


async def test_a_command_returns_when_its_child_exits_and_stdin_is_empty_C56(tmp_path: Path) -> None:
    script = template(
        calls(call("run", argv=["sh", "-c", "sleep 600 & echo ok"])),
        calls(call("run", argv=["cat"])),
        {"text": "done"},
    )
    async with kit(tmp_path) as made, working(made):
        run = await made.create(script, FILES)
        await made.finished(run)
        done = await made.events(run, ToolCompleted)
        assert [event.status for event in done] == ["Ok", "Ok"]
        assert b"ok" in await made.blob(done[0].output)
        assert b"1 processes it left behind were ended" in await made.blob(done[0].output)


async def test_any_output_bytes_are_stored_and_shown_as_text_C64(tmp_path: Path) -> None:
    raw = b"\x00\xff\xfe\xed\xa0\x80 utf-16: " + "é".encode("utf-16") + b"\x1b[31m"
    script = template(
        calls(call("run", argv=["python3", "-c", f"import sys; sys.stdout.buffer.write({raw!r})"])),
        calls(call("run", argv=["python3", "-c", "print('x' * 60000)"])),
        {"text": "done"},
    )
    async with kit(tmp_path) as made, working(made):
        run = await made.create(script, FILES)
        state = await made.finished(run)
        assert state.outcome is not None
        assert state.outcome.completed, state.outcome
        first, second = await made.events(run, ToolCompleted)
        shown = (await made.blob(first.output)).decode()
        assert "\\x00\\xff\\xfe\\xed\\xa0\\x80 utf-16" in shown
        assert not set(shown) & {"\x00", "\x1b"}
        view, whole = await made.blob(second.output), second.receipt.rpartition("output=")[2]
        assert len(view) < 17_500
        assert whole.encode() in view, "the view names where the whole output is (C41)"
        assert await made.blob(whole) == b"x" * 60000 + b"\n"
