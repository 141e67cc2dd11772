"""The verbs: what people do with states. Each family of them is a module beside this one."""

from __future__ import annotations

from limpet.client.checking import Checking
from limpet.client.keeping import Keeping
from limpet.client.looking import Looking
from limpet.client.mending import Mending
from limpet.client.serving import Serving
from limpet.client.travelling import Travelling


class Limpet(Travelling, Checking, Serving, Looking, Keeping, Mending):
    """A store, and everything that can be done with the states in it.

    ``store`` is a URL, a backend object, or None for the configured store (else a SQLite file in the folder
    ``.limpet``). A store that was opened from a URL is closed by ``close`` or at the end of a ``with``
    block; a backend object stays its owner's. ``lease_ttl_s`` is how long a state stays reserved for this process after
    it was last heard of; on the same machine, the states of a dead process are free at once. With ``create=False`` a
    store that does not exist is an error, and is not made.

    Values of more than ``artifact_threshold`` bytes are stored as artifacts: in ``artifact_backend``, else where the
    store keeps them by itself. With ``encryption`` records and artifacts are encrypted; without, the keys in
    LIMPET_KEY are used if it is set, or in the variable that is configured.

    ``retry_config_by_actor_type`` and ``default_retry_config`` say how calls are retried that say nothing of it
    themselves. They are kept with the states that are begun, and count when these are taken up again.

    What is not given here is as ``config`` says: one that ``load_config`` has given, else the one that is found now. It
    is followed: when its file has changed, runs that begin after that have the new settings, and runs that are under
    way save by the new ``checkpoint``. Raises ConfigurationError.

    A state does not choose what is executed: its agent is one that this process has declared, or is imported from the
    current project, or from one of the ``modules`` that are given here or configured: names of modules and packages,
    files, folders.

    ``checkpoint_policy`` and ``on_save_error`` say when runs are saved, and what is done where that fails, unless a run
    says so itself.
    """
