"""Agents for the demo gateway of a test."""

from __future__ import annotations

import asyncio

from acp_bridge.demo.stage import Stage


async def echo(run: Stage) -> None:
    """Says what it was told."""
    await say(run, run.message)


async def say(run: Stage, text: str) -> None:
    """A long text comes in pieces: the gateway shows no more than its last 500,000 characters."""
    for begin in range(0, len(text), 400_000):
        await run.text(text[begin : begin + 400_000])


async def endless(run: Stage) -> None:
    """Begins to answer and never ends."""
    await run.text("begun")
    await asyncio.Event().wait()


async def asks(run: Stage) -> None:
    """Runs one command, which needs a permission."""
    await run.exec("rm -r build", "gone")
    await run.text("done")
