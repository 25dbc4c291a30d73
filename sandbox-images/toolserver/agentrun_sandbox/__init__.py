"""The tool server and the egress guard of a sandbox Pod (docs/reference/sandbox-protocol.md).

A package of its own: it runs inside the user's image on an interpreter it brings along, and imports nothing of
agentrun. Whatever it says is the word of an untrusted Pod. Modules are imported late and the heavy ones of the
standard library (asyncio, dataclasses, typing, ssl, subprocess) not at all: a run waits for this start.
"""

TYPE_CHECKING = False
