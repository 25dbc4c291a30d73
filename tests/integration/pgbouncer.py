"""Debian's PgBouncer in transaction mode before the throw-away PostgreSQL, on loopback, ended by pid (C65)."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.shell import need_packages
from tests.integration.postgres import USER, PostgresServer

PROGRAM = Path("/usr/sbin/pgbouncer")


class PgBouncer:
    """Every database of the server, by the same name, on a port of its own."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self.port = _free_port()
        config = f"""
[databases]
* = host=127.0.0.1 port={server.port} user={USER}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
server_reset_query = DISCARD ALL
"""
        (folder / "pgbouncer.ini").write_text(config)
        shutil.chown(folder, USER, USER)
        command = ["runuser", "-u", USER, "--", str(PROGRAM), "-q", str(folder / "pgbouncer.ini")]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._wait(folder / "log")

    def url(self, database: str) -> str:
        """As a user of the supported set-up writes it: no prepared statements, polling alone wakes."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}?prepare=off"

    def stop(self) -> None:
        """End it."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(20)

    def _wait(self, log: Path) -> None:
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                if time.monotonic() > end or self._process.poll() is not None:
                    self.stop()
                    raise TimeoutError(f"PgBouncer does not start: {log.read_text()[-2000:]}") from None
                time.sleep(0.05)
            else:
                return


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def pgbouncer(postgres: PostgresServer) -> Iterator[PgBouncer]:
    """One pooler for the whole run."""
    need_packages({str(PROGRAM): "pgbouncer"})
    folder = Path(tempfile.mkdtemp(prefix="agentrun-pgbouncer-"))
    folder.chmod(0o755)
    pooler = PgBouncer(postgres, folder)
    yield pooler
    pooler.stop()
    shutil.rmtree(folder, ignore_errors=True)
