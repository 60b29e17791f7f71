"""Running a part of a test as somebody whom permissions bind."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue

_NOBODY = 65534


def run_unprivileged(work: Callable[[], str]) -> str:
    """The result of ``work``, done by a user other than root. What it imports must have been
    imported before: that user may not be allowed to read it."""
    if os.geteuid() != 0:
        return work()
    context = get_context("fork")
    answer: SimpleQueue[str] = context.SimpleQueue()
    process = context.Process(target=_work_as_nobody, args=(work, answer))
    process.start()
    result = answer.get()
    process.join(10)
    return result


def _work_as_nobody(work: Callable[[], str], answer: SimpleQueue[str]) -> None:
    os.setgroups([])
    os.setegid(_NOBODY)
    os.seteuid(_NOBODY)
    try:
        answer.put(work())
    except BaseException:  # the test shows it
        answer.put(traceback.format_exc())
