"""What people who build on Limpet test with."""

from limpet.testing.conformance import ArtifactBackendConformance, StateBackendConformance, TurnedClock
from limpet.testing.crashing import CrashingBackend, SimulatedCrash

__all__ = [
    "ArtifactBackendConformance",
    "CrashingBackend",
    "SimulatedCrash",
    "StateBackendConformance",
    "TurnedClock",
]
