"""What is captured of the place where a state began, by itself and without secrets."""

from holdfast.engine.environment.capture import CAPTURE_VARIABLE, with_environment

__all__ = ["CAPTURE_VARIABLE", "with_environment"]
