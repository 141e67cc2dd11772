"""Settings in variables of the environment: ``LIMPET_RETRY__MAX_ATTEMPTS=5`` is ``retry.max_attempts``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from limpet.config.model import SETTINGS
from limpet.config.problems import nearest
from limpet.keys import KEY_VARIABLE

PREFIX: Final = "LIMPET_"
STORE_VARIABLE: Final = f"{PREFIX}STORE"

OTHERS: Final = (KEY_VARIABLE, f"{PREFIX}DEMO_FOLDER")
"""Variables of ours that are no settings: the keys, and where the demonstration keeps its bill."""


def variable_of(key: str) -> str:
    """The variable that gives a setting."""
    return PREFIX + key.upper().replace(".", "__")


VARIABLES: Final = {variable_of(key): key for key in SETTINGS}
"""Every variable that gives a setting, and the key of that."""

SHORT: Final = {f"{PREFIX}RUN_MODULES": "run.modules"}
"""Variables that are understood besides: what people type in a hurry, to allow code that was refused."""


def ours(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that are meant for Limpet. One that is empty counts as not set."""
    return {name: text for name, text in environment.items() if name.startswith(PREFIX) and name not in OTHERS and text}


def unknown_variable(name: str) -> str:
    """That no setting has this variable, with the nearest that there is."""
    near = nearest(name, [*VARIABLES, *OTHERS])
    return f"no setting has the variable {name}.{f' Nearest: {near}.' if near else ''}"
