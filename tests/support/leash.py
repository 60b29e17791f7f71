"""Runs a command that must not outlive whoever started it.

    python -m tests.support.leash COMMAND [ARGUMENT...]

The command gets a process group of its own, which is killed when this program's stdin ends: also
when the starter was killed itself. A SIGTERM is passed on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)

    def kill_group() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)

    def watch_stdin() -> None:
        while os.read(0, 4096):
            pass
        kill_group()

    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    threading.Thread(target=watch_stdin, daemon=True).start()
    code = child.wait()
    kill_group()
    return code


if __name__ == "__main__":
    sys.exit(main())
