"""All settings as one typed model, and where their values come from: defaults, a file, the environment, arguments."""

from holdfast.config.configuration import Configuration, configured_store, load_config
from holdfast.config.model import DEFAULT_STORE, Settings
from holdfast.config.reloading import Change, Reloaded
from holdfast.config.variables import STORE_VARIABLE

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
