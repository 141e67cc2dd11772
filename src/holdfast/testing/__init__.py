"""What people who build on Holdfast test with."""

from holdfast.testing.conformance import ArtifactBackendConformance, StateBackendConformance, TurnedClock
from holdfast.testing.crashing import CrashingBackend, SimulatedCrash

__all__ = [
    "ArtifactBackendConformance",
    "CrashingBackend",
    "SimulatedCrash",
    "StateBackendConformance",
    "TurnedClock",
]
