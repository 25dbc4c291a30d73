"""Names and labels of what the operator makes (docs/decisions/0002-joints.md)."""

MANAGER = "agentrun-operator"
DENY_POLICY = "agentrun-default-deny"
SANDBOX_ACCOUNT = "agentrun-sandbox"
VIEWER_ACCOUNT = "agentrun-viewer"
SANDBOX_LABEL = "agentrun.dev/sandbox"
RUN_UID_LABEL = "agentrun.dev/run-uid"
PURPOSE_LABEL = "agentrun.dev/purpose"
DEFINITION_LABEL = "agentrun.dev/definition"
SPEC_DIGEST = "agentrun.dev/spec-digest"
TEMPLATE_DIGEST = "agentrun.dev/template-digest"
PART_OF = {"app.kubernetes.io/part-of": "agentrun"}
MANAGED = {"app.kubernetes.io/managed-by": MANAGER}


def pod_name(run_name: str, run_uid: str, purpose: str, number: int) -> str:
    """`arun-<run>-<8 hex of the UID>-<w|v><n>`: the prefix is what the admission policy guards."""
    return f"arun-{run_name[:40].strip('-.')}-{run_uid.replace('-', '')[:8]}-{purpose[0]}{number}".replace(".", "-")


def revision_name(definition: str, digest: str) -> str:
    """Name of the ControllerRevision that mirrors a template."""
    return f"{definition}-{digest.removeprefix('sha256:')[:10]}"
