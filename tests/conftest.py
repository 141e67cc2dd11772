"""Makes failures inside the conformance suite as telling as those in test files, and lets programs be interrupted."""

import signal

import pytest

pytest.register_assert_rewrite("limpet.testing.conformance")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a command that a shell runs in the background. The programs that tests start would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
