"""The contracts of backends as tests."""

from limpet.testing.conformance.artifact_backend import ArtifactBackendConformance
from limpet.testing.conformance.case import TurnedClock
from limpet.testing.conformance.state_backend import StateBackendConformance

__all__ = ["ArtifactBackendConformance", "StateBackendConformance", "TurnedClock"]
