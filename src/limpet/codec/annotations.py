"""Annotations as what they say: where they stand, and which names those that are text can use.

Text is evaluated as the program would. Where that fails, everything it names is looked at by itself: one name that does
not exist hides nothing that the others say.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial, partialmethod
from types import FrameType, FunctionType, MethodType
from typing import Any, Final, NamedTuple, cast, get_args, get_origin

from limpet.codec.source_names import bindings_of

MARK_NAMES: Final = frozenset({"Secret", "NotStored"})
"""Text that names one of these must be understood."""

_NAMES: Final = re.compile(r"[^\W\d]\w*")


class NotUnderstood(Exception):
    """Text that names a mark, which cannot be found. ``place``: the parameter or field, once it is known."""

    def __init__(self, text: str, name: str, place: str = "") -> None:
        super().__init__(text, name, place)
        self.text = text
        self.name = name
        self.place = place


class Hint(NamedTuple):
    """An annotation, and what its names mean."""

    what: object
    space: Space


class Space:
    """The names that annotations in one place can use."""

    def __init__(
        self, modules: tuple[str, ...], *spaces: Mapping[str, object], bound: Mapping[object, object] | None = None
    ) -> None:
        self.modules = modules
        self.bound = bound or {}
        """What stands for the type variables of a generic base."""
        self.names = ChainMap(*(cast("dict[str, object]", space) for space in (*spaces, vars(builtins))))
        self.misses = False
        """Whether a name could not be found, which may be there later."""

    def read(self, text: str) -> list[object]:
        """What an annotation says that was written as text; if that fails, all that it names and that can be found.

        Raises NotUnderstood.
        """
        try:
            return [eval(text, {}, self.names)]  # The program's own source text, as typing.get_type_hints does it.
        except Exception:
            try:
                node = ast.parse(text.strip(), mode="eval").body
            except (SyntaxError, ValueError):
                self._require_no_mark(text, *_NAMES.findall(text))
                return []
        return list(self._named(node, text))

    def _named(self, node: ast.AST, text: str) -> Iterator[object]:
        match node:
            case ast.Constant(value=str() as inner):
                yield from self.read(inner) if inner != text else ()
            case ast.Name() | ast.Attribute():
                yield from self._found(node, text)
            case ast.Subscript():
                yield from self._named(node.value, text)
                generic = _last(node.value)
                parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                if generic == "Annotated":
                    # What stands behind the type is no type: text there is just text.
                    parts = [parts[0], *(each for each in parts[1:] if not isinstance(each, ast.Constant))]
                for part in parts if generic != "Literal" else ():
                    yield from self._named(part, text)
            case _:
                for child in ast.iter_child_nodes(node):
                    yield from self._named(child, text)

    def _found(self, node: ast.Name | ast.Attribute, text: str) -> Iterator[object]:
        if isinstance(node, ast.Attribute):
            found = [getattr(each, node.attr, self) for each in self._named(node.value, text)]
            found = [each for each in found if each is not self]
        elif node.id in self.names:
            found = [self.names[node.id]]
        else:
            found = [each for module in self.modules for each in self._in_source(module, node.id)]
        if not found:
            self.misses = True
            self._require_no_mark(text, _last(node))
        yield from found

    def _in_source(self, module: str, name: str) -> Iterator[object]:
        for found in bindings_of(module, name):
            match found:
                case (str() as place, ast.expr() as expression):
                    if (place, name) not in _reading:
                        _reading.append((place, name))
                        try:
                            there = Space((place,), vars(sys.modules[place]) if place in sys.modules else {})
                            yield from list(there._named(expression, name))
                        finally:
                            _reading.pop()
                case _:
                    yield found

    def _require_no_mark(self, text: str, *names: str) -> None:
        for name in names:
            if name in MARK_NAMES:
                raise NotUnderstood(text, name)


_reading: Final[list[tuple[str, str]]] = []
"""The names that are being looked up in source: one may be bound to itself."""


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def wrapped_in(function: Any) -> list[Any]:
    """A callable and all that it wraps, from the outside to the inside."""
    chain: list[Any] = []
    while function is not None and not any(function is each for each in chain):
        chain.append(function)
        match function:
            case partial() | partialmethod():
                function = cast(Any, function).func
            case MethodType() | staticmethod() | classmethod():
                function = cast(Any, function).__func__
            case FunctionType() | type():
                function = getattr(cast(Any, function), "__wrapped__", None)
            case _:
                cls = cast("type[Any]", type(cast(object, function)))
                function = getattr(function, "__wrapped__", None) or (cls.__call__ if callable(function) else None)
    return chain


def hints_of(function: Callable[..., Any], local: Mapping[str, object] | None = None) -> dict[str, list[Hint]]:
    """The annotations of a function by the names of its parameters, those of all that it wraps among them.

    ``local``: names that are known only where it was declared; see ``names_around``.
    """
    space = space_of(function, local)
    hints: dict[str, list[Hint]] = {}
    for found in (_of_signature(function), *map(_annotations, _functions_in(function))):
        for name, hint in found.items():
            hints.setdefault(name, []).append(Hint(hint, space))
    return hints


def space_of(function: Any, local: Mapping[str, object] | None = None) -> Space:
    """The names that the annotations of a function, and of all that it wraps, can use."""
    chain = _functions_in(function)
    spaces: list[Mapping[str, object]] = [] if local is None else [local]
    for each in chain:
        cells = zip(each.__code__.co_freevars, each.__closure__ or (), strict=True)
        spaces += [_filled(cells), _type_parameters(each), each.__globals__]
    return Space(tuple(dict.fromkeys(str(each.__globals__.get("__name__")) for each in chain)), *spaces)


def _functions_in(function: Any) -> list[FunctionType]:
    return [each for each in wrapped_in(function) if isinstance(each, FunctionType)]


def names_around(function: Any) -> dict[str, object]:
    """The local names that annotations of a function use, where it is declared. To be called while it is."""
    chain = _functions_in(function)
    if not any("." in each.__qualname__ for each in chain):
        return {}
    hints = (hint for each in chain for hint in _annotations(each).values() if not isinstance(hint, type))
    wanted = {name for hint in hints for name in _NAMES.findall(str(hint))}
    found: dict[str, object] = {}
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and wanted:
        is_around = any(frame.f_globals is each.__globals__ for each in chain)
        if is_around and frame.f_locals is not frame.f_globals:
            for name in wanted.intersection(frame.f_locals):
                found.setdefault(name, frame.f_locals[name])
        frame = frame.f_back
    return found


def _filled(cells: Iterator[tuple[str, Any]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, cell in cells:
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # It has no value yet.
    return found


def _type_parameters(owner: Any) -> dict[str, object]:
    return {parameter.__name__: parameter for parameter in getattr(owner, "__type_params__", ())}


def _of_signature(function: Any) -> dict[str, object]:
    """What the signature says, which a program may have set by itself."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError, NameError):
        return {}
    hints: dict[str, object] = {each.name: each.annotation for each in signature.parameters.values()}
    hints["return"] = signature.return_annotation
    return {name: hint for name, hint in hints.items() if hint is not inspect.Signature.empty}


def hints_of_class(cls: type) -> dict[str, list[Hint]]:
    """The annotations of a class and its bases by the names of fields, from whatever declares them."""
    bound = _bound_in(cls)
    hints: dict[str, list[Hint]] = {}
    for base in cls.__mro__:
        # A TypedDict has the annotations of its bases for its own.
        space = _space_of(base, ChainMap(*bound.values()) if is_typed_dict(cls) else bound.get(base))
        own = _annotations(base)
        for name, hint in (*own.items(), *_declared(base), *_of_initialiser(base)):
            hints.setdefault(name, []).append(Hint(hint, space))
        hints |= {name: found for name, found in _cached(base).items() if name not in hints}
    return hints


def is_typed_dict(cls: type) -> bool:
    """Whether a class is a TypedDict, of ``typing`` or of ``typing_extensions``."""
    return dict in cls.__bases__ and "__total__" in vars(cls)


def _space_of(cls: type, bound: Mapping[object, object] | None) -> Space:
    module = sys.modules.get(cls.__module__)
    spaces: list[Mapping[str, object]] = [_type_parameters(cls), {} if module is None else vars(module), vars(cls)]
    outer: Any = module
    for part in cls.__qualname__.split(".")[:-1]:
        outer = getattr(outer, part, None)
        spaces += [vars(outer)] if isinstance(outer, type) else []
    return Space((cls.__module__,), *spaces, bound=bound)


def _declared(cls: Any) -> Iterator[tuple[str, object]]:
    """What attrs and pydantic note of fields apart from the annotations of the class."""
    own = cast("dict[str, Any]", vars(cls))
    for attribute in own.get("__attrs_attrs__", ()):
        yield attribute.name, attribute.type
    fields: dict[str, Any] = own.get("__pydantic_fields__") or {}
    for name, field in fields.items():
        yield name, field.annotation
        yield from ((name, each) for each in field.metadata if not isinstance(each, str))


def _of_initialiser(base: type) -> Iterator[tuple[str, object]]:
    """What an initialiser says of its parameters: they mostly have the names of the attributes that keep them."""
    initialiser = vars(base).get("__init__")
    if isinstance(initialiser, FunctionType):
        found = _annotations(initialiser)
        yield from ((name, hint) for name, hint in found.items() if name != "return")


def _cached(cls: type) -> dict[str, list[Hint]]:
    """Properties that an instance keeps once they were asked for."""
    functions = {name: each.func for name, each in vars(cls).items() if isinstance(each, cached_property)}
    return {name: hints_of(each).get("return", []) for name, each in functions.items()}


def _bound_in(cls: type) -> dict[type, dict[object, object]]:
    """What stands for the type variables of the generic bases of a class."""
    bound: dict[type, dict[object, object]] = {}
    for derived in cls.__mro__:
        for base in vars(derived).get("__orig_bases__", ()):
            bound.setdefault(cast(type, get_origin(base)), {}).update(_arguments_of(base, bound.get(derived, {})))
    return bound


def _arguments_of(alias: object, outer: Mapping[object, object]) -> dict[object, object]:
    """The arguments of a generic class by its type variables."""
    variables: tuple[object, ...] = getattr(get_origin(alias), "__parameters__", ())
    given = tuple(_of(outer, each) for each in get_args(alias))
    if len(variables) == len(given):
        return dict(zip(variables, given, strict=True))
    return dict.fromkeys(variables, given)  # One of them stands for many; which is which does not matter.


def _of(bound: Mapping[object, object], argument: object) -> object:
    try:
        return bound.get(argument, argument)
    except TypeError:
        return argument  # It cannot be a key, so it is no type variable.


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
