"""The contract of a state backend as tests."""

from holdfast.testing.conformance.case import TurnedClock
from holdfast.testing.conformance.state_backend import StateBackendConformance

__all__ = ["StateBackendConformance", "TurnedClock"]
