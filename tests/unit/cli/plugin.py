"""A real credential plugin, as cloud providers have them: a program that prints a token."""

import json
import sys
from pathlib import Path

from tests.unit.cli.cluster import TOKEN

_PROGRAM = """#!{python}
import json, pathlib
status = {{"token": pathlib.Path({token!r}).read_text()}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


def use_plugin(kubeconfig: Path) -> Path:
    """The kubeconfig's user signs in by the plugin; returns the file whose text is the token."""
    token, plugin = kubeconfig.with_name("token"), kubeconfig.with_name("plugin")
    token.write_text(TOKEN)
    plugin.write_text(_PROGRAM.format(python=sys.executable, token=str(token)))
    plugin.chmod(0o755)
    config = json.loads(kubeconfig.read_text())
    executed = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    config["users"][0]["user"] = {"exec": executed}
    kubeconfig.write_text(json.dumps(config))
    return token
