"""The verbs: what people do with states."""

from limpet.client.keeping import GRACE
from limpet.client.limpet import Limpet
from limpet.client.looking import StateView
from limpet.client.running import StoppingOptions, new_state_id

__all__ = ["GRACE", "Limpet", "StateView", "StoppingOptions", "new_state_id"]
