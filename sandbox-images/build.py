"""Build the images without a registry, from Debian packages and wheels, into the user's cache.

    python sandbox-images/build.py [--only NAME]… [--load] [--json]

With a registry use the Dockerfiles beside this file. Unchanged inputs cost nothing: an image's tag is the digest of
what it is made from. `--load` imports into the test cluster, `--json` prints {name: {reference, digest, archive}}.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "sandbox-images")]

from imagebuild import cache, images  # noqa: E402  (the path is set above)
from tests.cluster.shell import ClusterError  # noqa: E402


def build(names: list[str]) -> dict[str, dict[str, str]]:
    """Build what is missing; what there is then."""
    result = {}
    for name in names:
        begun = time.monotonic()
        built = images.IMAGES[name]()
        seconds, size = time.monotonic() - begun, built.archive.stat().st_size / 1e6
        print(f"images: {built.image} {size:.1f} MB, {seconds:.1f} s", flush=True)
        result[name] = {"reference": built.image, "digest": built.digest, "archive": str(built.archive)}
    return result


def load(built: dict[str, dict[str, str]]) -> None:
    """Import the archives into every node of the test cluster."""
    archives = [entry["archive"] for entry in built.values()]
    subprocess.run([sys.executable, "-m", "tests.cluster", "load", *archives], cwd=ROOT, check=True, stdout=sys.stderr)


def main(arguments: list[str]) -> int:
    """Command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(images.IMAGES), help="build this one (may be repeated)")
    parser.add_argument("--load", action="store_true", help="import into the test cluster")
    parser.add_argument("--json", action="store_true", help="print what there is")
    options = parser.parse_args(arguments)
    try:
        with cache.locked(), contextlib.redirect_stdout(sys.stderr):  # standard output is for --json alone
            built = build(options.only or list(images.IMAGES))
        if options.load:
            load(built)
    except (ClusterError, RuntimeError, FileNotFoundError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"images: `{' '.join(map(str, error.cmd[:4]))}` failed with status {error.returncode}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(built, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
