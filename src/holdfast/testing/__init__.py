"""What people who build on Holdfast test with."""

from holdfast.testing.conformance import StateBackendConformance, TurnedClock
from holdfast.testing.crashing import CrashingBackend, SimulatedCrash

__all__ = ["CrashingBackend", "SimulatedCrash", "StateBackendConformance", "TurnedClock"]
