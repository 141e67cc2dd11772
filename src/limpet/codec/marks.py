"""Marks in annotations: what a program says of a field or a parameter with ``Annotated[…, Mark]``."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Mapping
from typing import Any, cast


def hints_of_class(cls: type) -> dict[str, object]:
    """The annotations of a class and its bases, each as what it says."""
    hints: dict[str, object] = {}
    for base in reversed(cls.__mro__):
        hints |= hints_of(base)
    return hints


def hints_of(owner: Any) -> dict[str, object]:
    """The annotations of a class by itself, or of a function, each as what it says."""
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    space = {} if module is None else vars(module)
    return {name: _evaluated(hint, space) for name, hint in _annotations(owner).items()}


def _annotations(owner: Any) -> Mapping[str, object]:
    try:
        return inspect.get_annotations(owner)
    except Exception:
        # From Python 3.14 on annotations are evaluated all at once, when they are asked for. As text each can be
        # evaluated by itself, and one that names what does not exist does not hide the marks in the others.
        if sys.version_info < (3, 14):
            raise
        import annotationlib

        return annotationlib.get_annotations(owner, format=annotationlib.Format.STRING)


def _evaluated(hint: object, space: dict[str, Any]) -> object:
    """An annotation that was written as text, as what it says. One that cannot be evaluated stays text."""
    hint = hint.__forward_arg__ if isinstance(hint, typing.ForwardRef) else hint
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, dict(space))  # The program's own source text, as typing.get_type_hints evaluates it.
    except Exception:
        return hint


def is_marked(hint: object, mark: type) -> bool:
    """Whether the mark stands anywhere in an annotation. Text that names it and cannot be evaluated counts too."""
    if isinstance(hint, str):
        return f"{mark.__name__}]" in hint.replace(" ", "") or f"{mark.__name__}()" in hint
    if any(each is mark or isinstance(each, mark) for each in _metadata(hint)):
        return True
    return any(is_marked(part, mark) for part in typing.get_args(hint) if not isinstance(part, str))


def _metadata(hint: object) -> tuple[object, ...]:
    """What ``Annotated`` says beside the type. Libraries put objects into annotations that answer to every name."""
    try:
        found: Any = getattr(hint, "__metadata__", ())
    except Exception:
        return ()
    return cast("tuple[object, ...]", found) if type(found) is tuple else ()
