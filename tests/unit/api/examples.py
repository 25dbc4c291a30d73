"""Valid objects, one full one of each kind; tests change a copy."""

import copy
from typing import Any

Manifest = dict[str, Any]
DIGEST = "sha256:" + "ab" * 32
API_VERSION = "agentrun.dev/v1alpha1"


def builtin(name: str, builtin_name: str, effect: str = "ReadOnly", retry: str = "Repeat") -> Manifest:
    """A ToolSpec for a built-in tool."""
    return {
        "name": name,
        "executor": "Builtin",
        "builtin": builtin_name,
        "sideEffectClass": effect,
        "retryClass": retry,
    }


HTTP_TOOL: Manifest = {
    "name": "create_issue",
    "description": "Creates an issue.",
    "executor": "HTTP",
    "http": {
        "method": "Post",
        "url": "https://tracker.example.com/issues",
        "headers": [{"name": "Accept", "value": "application/json"}],
    },
    "inputSchema": {"type": "object", "properties": {"title": {"type": "string"}}},
    "outputSchema": {"type": "object"},
    "sideEffectClass": "External",
    "idempotency": {"mode": "Key", "header": "Idempotency-Key"},
    "retryClass": "SameKey",
    "approvalRule": "EachCall",
    "authScopes": ["issues:write"],
    "timeoutSeconds": 30,
    "resourceKey": "tracker/{project}",
    "statusQuery": {"tool": "read"},
    "maxOutputBytes": 4096,
}

AGENT_CLASS: Manifest = {
    "apiVersion": API_VERSION,
    "kind": "AgentClass",
    "metadata": {"name": "default"},
    "spec": {
        "models": [
            {
                "name": "scripted",
                "provider": "Scripted",
                "price": {"inputMicroUSDPerMTok": 0, "outputMicroUSDPerMTok": 0},
            },
            {
                "name": "large",
                "provider": "OpenAIChat",
                "modelID": "vendor/large-1",
                "endpoint": "https://models.example.com/v1",
                "credentialRef": {"name": "large-key"},
                "price": {
                    "inputMicroUSDPerMTok": 3_000_000,
                    "cachedInputMicroUSDPerMTok": 300_000,
                    "outputMicroUSDPerMTok": 15_000_000,
                },
                "contextTokens": 200_000,
                "maxOutputTokens": 8192,
            },
        ],
        "images": {"allow": ["*"], "requireDigest": False},
        "runtimeClasses": {"allow": ["gvisor"]},
        "budget": {"default": {"modelCalls": 50}, "max": {"modelCalls": 500, "costMicroUSD": 5_000_000}},
        "requireBudgetQuota": False,
        "approval": {
            "perEffectClass": {"external": "FirstUse"},
            "approvers": [{"kind": "Group", "name": "reviewers"}],
            "selfApproval": "Forbidden",
        },
        "egress": {
            "allow": [{"host": "*.example.com", "ports": [443]}, {"cidr": "192.0.2.0/24"}],
            "denyCIDRs": ["10.0.0.0/8"],
            "tolerateOpen": ["NodeIP"],
        },
        "queue": {"maxPending": 100, "weight": 2},
        "scheduling": {
            "nodeSelector": {"pool": "agents"},
            "tolerations": [{"key": "agents", "operator": "Exists", "effect": "NoSchedule"}],
            "imagePullSecrets": [{"name": "pull"}],
            "userIDs": {"first": 100_000, "count": 1000},
        },
    },
}

AGENT_DEFINITION: Manifest = {
    "apiVersion": API_VERSION,
    "kind": "AgentDefinition",
    "metadata": {"name": "fixer"},
    "spec": {
        "className": "default",
        "template": {
            "instructions": "Fix the failing test.",
            "modelName": "scripted",
            "modelParameters": {"turns": [{"text": "done", "finishReason": "Stop"}]},
            "tools": [
                builtin("run", "Run", "Workspace", "Reconcile"),
                builtin("read", "Read"),
                builtin("write", "Write", "Workspace", "Reconcile"),
                builtin("edit", "Edit", "Workspace", "Reconcile"),
                builtin("list", "List"),
                builtin("search", "Search"),
                HTTP_TOOL,
                {
                    "name": "lint",
                    "description": "Lints.",
                    "executor": "Sandbox",
                    "sandbox": {"argv": ["lint", "--json"]},
                    "sideEffectClass": "Workspace",
                    "idempotency": {"mode": "Natural"},
                    "retryClass": "Repeat",
                },
                {
                    "name": "lookup",
                    "description": "Looks up.",
                    "executor": "MCP",
                    "mcp": {"server": "docs", "tool": "lookup"},
                    "sideEffectClass": "ReadOnly",
                    "retryClass": "Repeat",
                },
                {
                    "name": "delegate",
                    "description": "Delegates.",
                    "executor": "SubRun",
                    "subRun": {"definitionName": "helper"},
                    "sideEffectClass": "External",
                    "retryClass": "Reconcile",
                },
            ],
            "mcpServers": [
                {
                    "name": "docs",
                    "url": "https://mcp.example.com/mcp",
                    "protocolVersion": "2025-06-18",
                    "digest": DIGEST,
                }
            ],
            "sandbox": {
                "image": "python-sandbox:1",
                "workspaceBytes": 1_073_741_824,
                "resources": {"cpuMillis": 500, "memoryBytes": 536_870_912, "processes": 256},
                "warm": False,
            },
            "context": {"budgetTokens": 32_000, "strategy": "Mask", "pinned": ["Never delete tests."]},
            "verification": {
                "argv": ["python", "-m", "pytest", "--junitxml=report.xml"],
                "report": {"path": "report.xml", "format": "JUnitXML"},
                "protectedPaths": ["tests"],
                "timeoutSeconds": 300,
            },
            "subagents": ["helper"],
        },
        "rollout": {
            "stable": "fixer-0123456789",
            "canary": {"revision": DIGEST, "percent": 10},
            "liveRuns": "Pin",
            "revokedRevisions": ["fixer-9876543210"],
        },
        "schedules": [
            {
                "id": "nightly",
                "cron": "0 3 * * *",
                "timeZone": "Europe/Berlin",
                "overlap": "Forbid",
                "startingDeadlineSeconds": 600,
                "run": {"input": {"text": "nightly"}, "budget": {"modelCalls": 10}, "priority": 1},
            }
        ],
    },
}

AGENT_RUN: Manifest = {
    "apiVersion": API_VERSION,
    "kind": "AgentRun",
    "metadata": {"name": "fix-1"},
    "spec": {
        "definitionRef": {"name": "fixer"},
        "input": {
            "text": "Make the tests pass.",
            "parameters": {"depth": 1, "tags": ["a"]},
            "files": [
                {"path": "src/app.py", "text": "print('hi')\n", "executable": True},
                {"path": "tests/test_app.py", "configMapKeyRef": {"name": "project", "key": "test_app.py"}},
                {"path": "data.bin", "artifactRef": {"digest": DIGEST}},
            ],
            "git": {"url": "https://git.example.com/project.git", "ref": "main"},
        },
        "budget": {"modelCalls": 20, "costMicroUSD": 1_000_000, "wallClockSeconds": 3600, "concurrency": 2},
        "priority": 5,
        "dedupeKey": "pull-request-7",
        "startDeadlineSeconds": 600,
        "ttlSecondsAfterFinished": 86_400,
        "rerunPolicy": "IfChanged",
    },
}

TOOL_GRANT: Manifest = {
    "apiVersion": API_VERSION,
    "kind": "ToolGrant",
    "metadata": {"name": "fixer-tools"},
    "spec": {
        "definitionName": "fixer",
        "templateDigests": [DIGEST],
        "requesters": [
            {"kind": "User", "name": "alice"},
            {"kind": "ServiceAccount", "name": "ci", "namespace": "pipelines"},
        ],
        "tools": [
            {"name": "run"},
            {
                "name": "create_issue",
                "digest": DIGEST,
                "match": [
                    {"path": "/project", "equals": "demo"},
                    {"path": "/urgent", "equals": False},
                    {"path": "/kind", "in": ["bug", 7, None]},
                    {"path": "/title", "prefix": "[bot] "},
                    {"path": "/priority", "range": {"min": 0, "max": 3}},
                ],
                "expression": "args.title.size() < 100",
            },
        ],
        "approval": {
            "rule": "EachCall",
            "approvers": [{"kind": "Group", "name": "reviewers"}],
            "expirationSeconds": 3600,
        },
        "credentials": [{"name": "tracker"}],
        "egress": [{"host": "tracker.example.com", "ports": [443]}],
        "limits": {"mutations": 5},
        "expirationTime": "2030-01-01T00:00:00Z",
    },
}

TOOL_APPROVAL: Manifest = {
    "apiVersion": API_VERSION,
    "kind": "ToolApproval",
    "metadata": {"name": "decision-1"},
    "spec": {
        "run": {"name": "fix-1", "uid": "0b3ad1f4-0000-4000-8000-000000000000"},
        "requestID": "r-5f1c",
        "callID": "t3c0",
        "requestDigest": DIGEST,
        "decision": "Approved",
        "message": "fine",
    },
}

ALL: dict[str, Manifest] = {
    item["kind"]: item for item in (AGENT_CLASS, AGENT_DEFINITION, AGENT_RUN, TOOL_GRANT, TOOL_APPROVAL)
}


def edited(manifest: Manifest, path: str, value: Any) -> Manifest:
    """A deep copy with the value at a dotted path (`spec.template.tools.0.name`) replaced; None removes it."""
    result = copy.deepcopy(manifest)
    *parents, last = path.split(".")
    node: Any = result
    for part in parents:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    if isinstance(node, list):
        node[int(last)] = value
    elif value is None:
        del node[last]
    else:
        node[last] = value
    return result
