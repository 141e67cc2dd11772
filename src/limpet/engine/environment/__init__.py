"""What is captured of the place where a state began, by itself and without secrets."""

from limpet.engine.environment.capture import with_environment

__all__ = ["with_environment"]
