"""The verbs: what people do with states."""

from holdfast.client.holdfast import Holdfast
from holdfast.client.keeping import GRACE
from holdfast.client.looking import StateView
from holdfast.client.running import StoppingOptions, new_state_id

__all__ = ["GRACE", "Holdfast", "StateView", "StoppingOptions", "new_state_id"]
