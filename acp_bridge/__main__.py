"""The command ``acp-bridge``.

Until standard output has been set aside this module may import nothing but ``os`` and ``sys``:
whatever an imported module prints would reach the editor as a broken message.
"""

import os
import sys

_HELP = {"--help", "-h", "--version"}


def main() -> None:
    """Run the command line and exit with its code."""
    argv = sys.argv[1:]
    if _is_serve(argv):
        code = _serve(argv)
        # The interpreter's own ending would flush into a stderr that nobody may be reading, and
        # wait for threads that wait for the editor. Everything that matters is written by now.
        os._exit(code)
    sys.exit(_command(argv))


def _is_serve(argv: list[str]) -> bool:
    named = bool(argv) and not argv[0].startswith("-")
    return (not named or argv[0] == "serve") and _HELP.isdisjoint(argv)


def _serve(argv: list[str]) -> int:
    wire = _set_output_aside()
    _dump_no_core()
    _end_by_signal_with_a_code()
    try:
        from acp_bridge.cli.serve import run

        return run(argv[1:] if argv[:1] == ["serve"] else argv, wire)
    except BaseException as error:  # the last place where a traceback can be kept from the user
        return _failed(error)


def _command(argv: list[str]) -> int:
    _dump_no_core()
    try:
        from acp_bridge.cli.main import run

        return run(argv)
    except BrokenPipeError:  # the reader, as in "acp-bridge --help | head", has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except BaseException as error:  # the last place where a traceback can be kept from the user
        return _failed(error)


def _set_output_aside() -> int:
    """A descriptor of standard output for the wire alone; descriptor 1 becomes stderr."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:  # started with it closed: what is opened next must not take its number
            os.open(os.devnull, os.O_RDWR)
    wire = os.dup(1)
    os.dup2(2, 1)
    if sys.stdout is not None:  # noqa: TID251 - what start-up hooks left in its buffer goes to stderr
        sys.stdout.flush()  # noqa: TID251 - see above
    return wire


def _dump_no_core() -> None:
    """A dump of this process would hold the credentials, and the conversation."""
    try:
        import resource
    except ImportError:  # Windows writes none
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end_by_signal_with_a_code() -> None:
    """Until the bridge handles signals itself there is nothing to put in order, but the exit code
    is the documented one. SIGINT raises ``KeyboardInterrupt``, as everywhere."""
    import signal

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda caught, _: os._exit(128 + caught))


def _failed(error: BaseException) -> int:
    from acp_bridge.cli.failures import report

    return report(error)


if __name__ == "__main__":
    main()
