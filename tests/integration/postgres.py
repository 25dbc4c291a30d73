"""A throw-away PostgreSQL from Debian's package, on loopback or the test cluster's own bridge, ended by pid."""

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

USER = "postgres"  # the server refuses to run as root


def programs() -> Path:
    """Folder of initdb and postgres; installs Debian's package if it is missing, and says so."""
    servers = Path("/usr/lib/postgresql")
    if not any(servers.glob("*/bin/initdb")):
        need_packages({"initdb": "postgresql"})  # never on PATH: so it is installed
    return max(servers.glob("*/bin/initdb")).parent


class PostgresServer:
    """One server in a folder of its own."""

    def __init__(self, folder: Path, *extra_addresses: str) -> None:
        self.folder = folder
        self._addresses = ("127.0.0.1", *extra_addresses)
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        shutil.chown(folder, USER, USER)
        self._as_user(programs() / "initdb", "-D", folder / "data", "-A", "trust", "-U", USER, "--no-sync")
        with (folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all scram-sha-256\n")

    @property
    def url(self) -> str:
        """URL of the empty database `postgres`."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def database(self, name: str) -> str:
        """URL of a new database."""
        self._psql(f'CREATE DATABASE "{name}"')
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{name}"

    def login(self, role: str, password: str) -> None:
        """A role that may log in over the network, and own what it makes in the database `postgres`."""
        self._psql(f"CREATE ROLE \"{role}\" LOGIN PASSWORD '{password}'")
        self._psql(f'GRANT CREATE ON DATABASE postgres TO "{role}"; GRANT CREATE ON SCHEMA public TO "{role}"')

    def drop(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        self._psql(f'DROP DATABASE "{name}" WITH (FORCE)')

    def start(self) -> None:
        """Start and wait until it takes connections."""
        addresses = ",".join(self._addresses)
        settings = {"port": self.port, "listen_addresses": addresses, "unix_socket_directories": "", "fsync": "on"}
        flags = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        command = ["runuser", "-u", USER, "--", str(programs() / "postgres"), "-D", str(self.folder / "data"), *flags]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + 30
        while not self._answers():
            if time.monotonic() > end:
                raise TimeoutError(f"PostgreSQL does not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL the whole server, as a node's end would: nothing of it is left to own its lock file."""
        self._end(signal.SIGKILL)
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """Stop at once, cleanly."""
        self._end(signal.SIGQUIT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        os.killpg(self._process.pid, how)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(20)
        self._process = None

    def _answers(self) -> bool:
        done = subprocess.run([programs() / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False)
        return done.returncode == 0

    def _psql(self, sql: str) -> None:
        subprocess.run([programs() / "psql", "-q", self.url, "-c", sql], check=True, capture_output=True)

    def _as_user(self, *command: str | Path) -> None:
        argv = ["runuser", "-u", USER, "--", *map(str, command)]
        subprocess.run(argv, check=True, capture_output=True, cwd="/")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the whole run; tests make databases of their own in it."""
    programs()
    folder = Path(tempfile.mkdtemp(prefix="agentrun-postgres-"))
    folder.chmod(0o755)
    server = PostgresServer(folder)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)
