"""How a command ends: exit codes, one sentence for each error that a user can correct, signals, and the standard streams.

    0    done
    1    some work failed and was recorded; or the disk or the memory is full, or a pipe is closed; or the reader of private states
         on standard output ended before the last state. What is stored is kept
    2    the input or the call is wrong. Nothing was written, except the private states of a stream before a line that cannot be read
    70   a fault in dpjax or in a workload: a traceback follows
    129  SIGHUP stopped a command that publishes (143: SIGTERM); no temporary file is left
    130  Ctrl-C stopped the command; what is stored is kept

If the reader of standard output ends after the work is done, the exit code does not change, unless the name of a release was still to
be printed. Set DPJAX_TRACEBACK=1 to see where an error was raised.

*Errors.* Each command has one table from the library's arguments to its options. `naming_options` puts the option's name into an
InputError.

*Signals.* In a command that publishes, SIGTERM and SIGHUP raise an exception, which removes temporary files on its way out.

*Streams.* A shell may start the command with a standard stream closed. If descriptor 2 is closed, Python sets `sys.stderr` to None and
`print` writes to standard output. The next file that is opened gets the free descriptor. Messages or a library's log would then be
written into the published output. `close_holes` and `check_output` prevent this.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import pathlib
import re
import signal
import stat
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, NoReturn

import typer

from dpjax._errors import InputError, invalid, require

_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_KEPT = "What was stored before is kept; the same command continues from there"
DONE, FAILED, WRONG, FAULT, STOPPED = 0, 1, 2, 70, 130


class Ended(BaseException):
    """Raised when `error` ends a command after something was released or charged.

    Args:
        error: the exception that ended the command.
        done: what was released or charged; printed in place of the usual sentence about what is kept.
        code: exit code in place of the usual one, if a user can correct the error.
    """

    def __init__(self, error: BaseException, done: str, code: int | None = None) -> None:
        super().__init__(done)
        self.error, self.done, self.code = error, done, code


def guarded(command: Callable[..., int], options: Mapping[str, str] | None = None, kept: str = _KEPT) -> Callable[..., None]:
    """Return `command` with its exceptions turned into sentences and exit codes.

    Args:
        command: a function that returns its exit code.
        options: the command's option for each argument of the library.
        kept: the sentence about what is kept after a full disk or memory.
    """

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        if not kept and isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(
                line_buffering=False, write_through=False
            )  # a closed pipe must not stop a release before its end
        try:
            with naming_options(options or {}):
                code = command(*args, **{name: _at_home(value) for name, value in kwargs.items()})
        except Ended as end:
            code = _explained(end.error, end.done, end.code)
        except (Exception, KeyboardInterrupt, Terminated) as error:
            code = _explained(error, kept)
        _last_words(code)
        raise typer.Exit(code)

    return wrapped


def _last_words(code: int) -> None:
    """Flush standard output. If its reader has ended, say so on standard error: the work itself is done."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        with open(os.devnull, "wb") as nowhere:  # otherwise Python flushes once more at exit and fails
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        if code == DONE:
            say("done; the reader of standard output closed it before the end of the output", DONE)


def _at_home(value: Any) -> Any:
    """Expand ~ at the start of a path: a shell does not expand it in --out=~/x."""
    return value.expanduser() if isinstance(value, pathlib.Path) and str(value).startswith("~") else value


def _explained(error: BaseException, kept: str, code: int | None = None) -> int:
    if os.environ.get("DPJAX_TRACEBACK"):
        traceback.print_exception(error)
    if isinstance(error, (KeyboardInterrupt, Terminated)):
        left = "" if kept == _KEPT else kept
        return say(_joined(str(error) or "stopped", left), error.code if isinstance(error, Terminated) else STOPPED)
    if code is not None and isinstance(error, (OSError, MemoryError, ValueError)):
        why = getattr(error, "strerror", None) or str(error) or "there is not enough memory"
        return say(_joined(f"error: {why}", kept), code)
    if isinstance(error, OSError):
        return say(*_disk(error, kept))
    if isinstance(error, MemoryError):
        return say(_joined(f"error: out of memory{f' ({_sentence(error)})' if str(error) else ''}", kept), FAILED)
    if isinstance(error, ValueError):
        return say(_joined(f"error: {_sentence(error)}", "" if kept == _KEPT else kept), WRONG)
    traceback.print_exception(error)
    return FAULT


def _disk(error: OSError, kept: str) -> tuple[str, int]:
    from dpjax._atomic import StorageError

    if isinstance(error, StorageError):
        return _joined(f"error: {error}", kept), FAILED
    if error.errno in _REFUSED:  # from a figure or from another library that writes
        return _joined(f"error: {error.filename or 'the disk'}: {os.strerror(error.errno)}", kept), FAILED
    if isinstance(error, BrokenPipeError):
        return _joined("error: the reader of the command's output closed the pipe", kept), FAILED
    where = f"{error.filename}: " if error.filename else ""
    return _joined(f"error: {where}{error.strerror or error}", "" if kept == _KEPT else kept), WRONG


def _joined(said: str, kept: str) -> str:
    said = said if said.endswith((".", "?", "!")) else f"{said}."
    return f"{said} {kept}" if kept else said


def _sentence(error: Exception) -> str:
    """The text of the error in one line; of an error of pydantic only the first fault."""
    if hasattr(error, "errors"):
        fault = error.errors()[0]
        key = ".".join(str(step) for step in fault["loc"])
        inner = fault.get("ctx", {}).get("error")
        return str(
            inner if isinstance(inner, InputError) else InputError(key, f"is {fault['input']!r}", str(inner or fault["msg"]))
        )
    return " ".join(str(error).split())


def say(text: str, code: int) -> int:
    """Print a sentence to standard error and return `code`. A closed standard error is ignored."""
    with contextlib.suppress(OSError):  # the exit code reports the error too
        print(f"dpjax: {text}", file=sys.stderr, flush=True)
    return code


@contextlib.contextmanager
def naming_options(options: Mapping[str, str]) -> Iterator[None]:
    """Context manager: an InputError about an argument of the library names the option that sets it.

    Args:
        options: option for each argument of the library. Errors about other arguments do not change.
    """
    try:
        yield
    except ValueError as error:
        named = error.renamed(options.get(error.argument, error.argument)) if isinstance(error, InputError) else error
        if "format" in options and not hasattr(error, "errors") and (said := as_options(str(named))) != str(named):
            raise ValueError(said) from None
        if named is error or error.argument not in options:  # type: ignore[attr-defined]
            raise
        raise named from None


def as_options(text: str) -> str:
    """`text` with Python arguments such as format={'quotes': False} written as options of the command: --format quotes=no."""

    def option(found: re.Match[str]) -> str:
        return f"--format {found[1]}={ {'True': 'yes', 'False': 'no'}.get(found[2], found[2]) }"

    text, changed = re.subn(r"format=\{'(\w+)': '?([\w,-]+)'?\}", option, text)
    text, also = re.subn(r"(?<![\w.-])(?<!format )(header(?==True|=False)|allow_gap|no_row|kind)='?([\w.]*\w)'?", option, text)
    if changed or also:
        text = re.sub(r"\bor (True|False)\b", lambda found: f"or {'yes' if found[1] == 'True' else 'no'}", text)
    text = text.replace("pass its encoding in format=", "pass its encoding: --format encoding=NAME")
    return text.replace("in format: columns=", "by --format columns=")


SIGNALLED = 128  # an exit code of 128 + n means signal n
_POLITE: dict[signal.Signals, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}
_SOON = 0.05  # s


class Terminated(BaseException):
    """Raised when a signal asks the process to end; `code` is 128 plus the number of the signal, as in a shell."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.code = 128 + number


def ending_orderly(command: Callable[..., int]) -> Callable[..., int]:
    """Return `command` with SIGTERM and SIGHUP raised as `Terminated` while it runs.

    During an import these signals and Ctrl-C wait until the import ends. A signal that is ignored (`nohup`) or that has another handler
    keeps its handler. A second signal does not interrupt the clean-up after the first. Outside the main thread nothing changes.
    """

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        if threading.current_thread() is not threading.main_thread():
            return command(*args, **kwargs)
        taken = [number for number, usual in _POLITE.items() if signal.getsignal(number) is usual]
        for number in taken:
            signal.signal(number, _end)
        try:
            return command(*args, **kwargs)
        finally:
            for number in taken:
                signal.signal(number, _POLITE[number])

    return wrapped


def leave(code: int) -> NoReturn:
    """Flush the streams and end the process at once.

    Python's own exit takes time. A signal in that time would give the exit code of a failure to a complete release.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the stream is full, closed or None
            stream.flush()
    os._exit(code)


def _end(number: int, frame: FrameType | None) -> None:
    under_way = sys.exc_info()[1]
    # ends: Python breaks a circle of contexts when it sets one
    while under_way is not None:
        if isinstance(under_way, (Terminated, KeyboardInterrupt)):
            return
        under_way = under_way.__context__
    if _untimely(frame):
        threading.Timer(_SOON, os.kill, (os.getpid(), number)).start()
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
    else:
        raise Terminated(number)


def _untimely(frame: FrameType | None) -> bool:
    """Whether an exception now would be lost (during garbage collection) or crash the process (during the import of a compiled module)."""
    # ends: with the stack
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap" or frame.f_code.co_name in ("_xla_gc_callback", "__del__"):
            return True
        frame = frame.f_back
    return False


def close_holes() -> None:
    """Open the null device in place of every closed standard stream. Messages to a closed standard error are dropped."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (stays open until the process ends)


def is_heard() -> bool:
    """Whether standard error was open when the command started and can be written to."""
    if sys.stderr is None or getattr(sys.stderr, "name", None) == os.devnull:
        return False
    try:
        sys.stderr.flush()
    except OSError:
        return False
    return True


def check_output(inputs: Mapping[str, pathlib.Path | None]) -> None:
    """ValueError unless standard output is open and is neither the file of standard error nor of an input."""
    require(sys.stdout is not None, "standard output", None, "open it, or give a file with --out", problem="is closed")
    out = os.fstat(sys.stdout.fileno())
    if stat.S_ISCHR(out.st_mode):
        return
    try:
        words = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # standard error has no descriptor: it cannot be the same file
        words = None
    if words is not None and os.path.samestat(out, words):
        invalid(
            "standard error",
            None,
            "messages would be mixed with private states: give --out",
            problem="is the same file as standard output",
        )
    for name, path in inputs.items():
        found = os.fstat(sys.stdin.fileno()) if path is None else os.stat(path) if path.exists() else None
        if found is not None and stat.S_ISREG(found.st_mode) and os.path.samestat(out, found):
            invalid(
                "standard output",
                None,
                "it would be overwritten: give --out with a new name",
                problem=f"is the same file as {name}",
            )
