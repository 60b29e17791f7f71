"""Work that may block, done in a thread that keeps nobody from leaving.

The threads of ``asyncio.to_thread`` are waited for at the end of the process; a gateway that does
not answer must not hold it for as long as that takes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def begin(work: Callable[[], T]) -> asyncio.Future[T]:
    """The result of ``work``, or what it raises. It goes on, unheard, if nobody waits any more."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # from here on nobody cancels it

    def do() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # it is raised where the result is wanted
            future.set_exception(error)

    threading.Thread(target=do, name="apart", daemon=True).start()
    return asyncio.wrap_future(future)
