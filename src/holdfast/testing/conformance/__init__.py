"""The contracts of backends as tests."""

from holdfast.testing.conformance.artifact_backend import ArtifactBackendConformance
from holdfast.testing.conformance.case import TurnedClock
from holdfast.testing.conformance.state_backend import StateBackendConformance

__all__ = ["ArtifactBackendConformance", "StateBackendConformance", "TurnedClock"]
