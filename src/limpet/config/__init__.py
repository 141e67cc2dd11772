"""All settings as one typed model, and where their values come from: defaults, a file, the environment, arguments."""

from limpet.config.configuration import Configuration, configured_store, load_config
from limpet.config.model import DEFAULT_STORE, Settings
from limpet.config.reloading import Change, Reloaded
from limpet.config.variables import STORE_VARIABLE

__all__ = [
    "DEFAULT_STORE",
    "STORE_VARIABLE",
    "Change",
    "Configuration",
    "Reloaded",
    "Settings",
    "configured_store",
    "load_config",
]
