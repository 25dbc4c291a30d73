"""`python3 -m agentrun_sandbox`: the tool server."""

import sys

from agentrun_sandbox.server import main

if __name__ == "__main__":
    sys.exit(main())
