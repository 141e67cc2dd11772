"""What becomes, in a forked child, of a run that goes on in the parent: it is not the child's.

The child has a copy of the event loop, too. It shares the handle by which the kernel wakes the loop, so that closing
the copy would leave the parent's loop asleep for ever: the copy is cut off from it. Where the child comes back to the
copy all the same, the copies of the runs on it are stopped with an error, instead of waiting for what never comes.
"""

from __future__ import annotations

import asyncio
import selectors
import signal
import threading
from contextvars import Context
from typing import TYPE_CHECKING, Any

from limpet.errors import LeaseOfParent
from limpet.model import InterruptSignal, StateStatus

if TYPE_CHECKING:
    from limpet.engine.live import LiveState

REASON = "forked"
"""Why the copy of a run is stopped."""


def give_up_copy(live: LiveState, loop: asyncio.AbstractEventLoop, error: LeaseOfParent) -> None:
    """Cut the copy of a loop that goes on in the parent off, and stop the run on it if the child comes back to it."""
    _cut_off(loop)
    loop.call_soon(_stop, live, loop, error, context=Context())


def _stop(live: LiveState, loop: asyncio.AbstractEventLoop, error: LeaseOfParent) -> None:
    # A forked process is in no loop, as far as asyncio knows; this one is, whatever it should be.
    asyncio._set_running_loop(loop)
    live.loop = loop
    if live.saver is not None:
        live.saver.tell_waiters(error)
    message = "This is a copy of the run, in a process that was forked from the one that it goes on in."
    live.stopper.request(InterruptSignal(REASON, message, save_checkpoint=False), StateStatus.INTERRUPTED, error)


def _cut_off(loop: asyncio.AbstractEventLoop) -> None:
    """Give the copy of a loop a selector and a pipe of its own. Once for all the runs on it."""
    own: Any = loop
    if getattr(own, "_selector", None) is None or getattr(own, "_limpet_cut_off", False):
        return  # Loops of other libraries are not known.
    own._limpet_cut_off = True
    # Closing the copies of the handles takes nothing from the parent, as long as the selector that both share is left
    # alone: so the copies of the pipe are closed when there is another selector.
    own._selector = selectors.DefaultSelector()
    own._close_self_pipe()
    own._make_self_pipe()
    if threading.current_thread() is threading.main_thread():
        # Otherwise a signal to the child would be written into the pipe of the parent.
        signal.set_wakeup_fd(-1)
