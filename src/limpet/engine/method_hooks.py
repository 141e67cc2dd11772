"""Hooks in other people's classes: a method of ours stands before one of theirs while it is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class MethodHook:
    """A method that another one takes the place of. Whatever others put before it meanwhile is left there."""

    def __init__(self, owner: type, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._owner = owner
        self._name = name
        self._around = around
        self._is_inherited = False
        self._before: Callable[..., Any] | None = None
        self._ours: Callable[..., Any] | None = None

    def set(self) -> None:
        before = getattr(self._owner, self._name)
        if before is self._ours:
            return
        if before is not self._before or self._ours is None:
            self._before, self._ours = before, self._around(before)
        self._is_inherited = self._name not in vars(self._owner)
        setattr(self._owner, self._name, self._ours)

    def unset(self) -> None:
        if getattr(self._owner, self._name) is not self._ours:
            return
        if self._is_inherited:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._before)
