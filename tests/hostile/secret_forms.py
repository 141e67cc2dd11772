"""Modules in which a secret stands in every place a type can stand, spelled in every way. Written out as source text.

A form is a tool, or a class and a tool that is given its instances. Each has a secret of its own, so that a leak says
where it came from.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

PREFIX = "zqx7secret"
"""What every secret begins with."""

SPELLINGS = {
    "annotated": "Annotated[{T}, Secret]",
    "an instance": "Annotated[{T}, Secret()]",
    "among others": "Annotated[{T}, 'a key', Secret, 3]",
    "in a list": "Annotated[{T}, [1, Secret]]",
    "annotated twice": "Annotated[Annotated[{T}, Secret], 'a key']",
    "a subclass": "Annotated[{T}, OwnSecret]",
    "dotted": "typing.Annotated[{T}, limpet.Secret]",
    "bare": "Secret",
    "an alias": "Key_{T}",
    "a new type": "NewKey_{T}",
    "a type variable": "Bound_{T}",
    "a constrained variable": "Chosen_{T}",
    "text": "'Annotated[{T}, Secret]'",
    "text in text": "Optional['Optional[\"Annotated[{T}, Secret]\"]']",
    "an alias of text": "TextKey_{T}",
    "for type checkers": "'CheckedKey_{T}'",
    "from a module that is not loaded": "'UnloadedKey_{T}'",
    "further down": "'LaterKey_{T}'",
    "beside what does not exist": "'Annotated[Missing, Secret]'",
    "beside text that does not exist": "'Missing[Annotated[{T}, Secret]]'",
    "local": "LocalKey",
}
if sys.version_info >= (3, 12):
    SPELLINGS["a type statement"] = "Stated_{T}"

WRAPS = {
    "optional": ("Optional[{}]", "{}"),
    "a union": ("Union[int, {}]", "{}"),
    "a list": ("list[{}]", "[{}]"),
    "a typing list": ("typing.List[{}]", "[{}]"),
    "a dict": ("dict[str, {}]", "{{'a': {}}}"),
    "keys of a dict": ("dict[{}, int]", "{{{}: 1}}"),
    "a tuple": ("tuple[int, {}]", "(1, {})"),
    "a long tuple": ("tuple[{}, ...]", "({},)"),
    "a set": ("set[{}]", "{{{}}}"),
    "a frozen set": ("frozenset[{}]", "frozenset([{}])"),
    "a mapping": ("Mapping[str, {}]", "{{'a': {}}}"),
    "a sequence": ("Sequence[{}]", "[{}]"),
    "a deque": ("deque[{}]", "deque([{}])"),
    "all of it": ("list[dict[str, tuple[int, list[Optional[{}]]]]]", "[{{'a': (1, [{}])}}]"),
    "a generic class": ("Box[{}]", "Box({})"),
    "a generic model": ("ModelBox[{}]", "ModelBox.model_construct(value={})"),
    "a type of its own parameters": ("Twice[{}]", "[{}]"),
}

PARAMETERS = {
    "by place": ("async def {n}(x: {A}, mode): return work({i}, mode)", "{n}({v}, mode)"),
    "by name": ("async def {n}(mode, *, x: {A}): return work({i}, mode)", "{n}(mode, x={v})"),
    "named and placed": ("async def {n}(x: {A}, mode): return work({i}, mode)", "{n}(mode=mode, x={v})"),
    "rest": ("async def {n}(mode, *x: {A}): return work({i}, mode)", "{n}(mode, {v}, {v})"),
    "named rest": ("async def {n}(mode, **x: {A}): return work({i}, mode)", "{n}(mode, a={v})"),
    "with a default": ("async def {n}(mode, x: {A} = None): return work({i}, mode)", "{n}(mode, {v})"),
    "plain": ("def {n}(x: {A}, mode): return work({i}, mode)", "{n}({v}, mode)"),
    "a misspelled name": ("async def {n}(mode, x: {A} = None): return work({i}, mode)", "{n}(mode, xx={v})"),
    "too many": ("async def {n}(mode, x: {A} = None): return work({i}, mode)", "{n}(mode, None, {v})"),
}

WRAPPERS = {
    "wrapped": "@tool\n@wrapping\nasync def {n}(x: {A}, mode): return work({i}, mode)",
    "wrapped twice": "@tool\n@wrapping\n@wrapping\nasync def {n}(x: {A}, mode): return work({i}, mode)",
    "wrapped elsewhere": "@tool\n@elsewhere\nasync def {n}(x: {A}, mode): return work({i}, mode)",
    "with a signature": "async def {n}(x: {A}, mode): return work({i}, mode)\n{n} = tool(signed({n}))",
}

METHODS = {
    "a method": (
        "@tool\n    async def form_{i}(self, x: {A}, mode): return work({i}, mode)",
        "{n}().form_{i}({v}, mode)",
    ),
    "a static method": (
        "@staticmethod\n    @tool\n    async def form_{i}(x: {A}, mode): return work({i}, mode)",
        "{n}.form_{i}({v}, mode)",
    ),
    "a handler": (
        "async def handle(self, input: {A}, context, state): return work({i}, input_mode(context))",
        "Tool(name='{n}', handler={n}().handle)({v}, mode)",
    ),
    "an input model": (
        "async def handle(self, input, context, state): return work({i}, input_mode(context))",
        "Tool(name='{n}', handler={n}().handle, input_model={A})({v}, mode)",
    ),
}

RESULTS = {
    "a result": ("async def {n}(mode) -> {A}: return await given({v}, {i}, mode)", "{n}(mode)"),
    "a plain result": ("def {n}(mode) -> {A}: return checked({v}, {i}, mode)", "{n}(mode)"),
    "a wrapped result": ("@wrapping\nasync def {n}(mode) -> {A}: return await given({v}, {i}, mode)", "{n}(mode)"),
}

FIELDS = {
    "a dataclass": "@dataclass\nclass {C}:\n    user: str\n    key: {A}",
    "a slotted dataclass": "@dataclass(slots=True, frozen=True)\nclass {C}:\n    user: str\n    key: {A}",
    "an inherited field": (
        "@dataclass\nclass {C}_:\n    user: str\n    key: {A}\n@dataclass\nclass {C}({C}_):\n    more: int = 0"
    ),
    "a generic base": "@dataclass\nclass {C}(UserBox[{A}]):\n    more: int = 0",
    "a dataclass with its own initialiser": (
        "@dataclass(init=False)\nclass {C}:\n    user: str\n    key: object\n"
        "    def __init__(self, user, key: {A}): self.user, self.key = user, key"
    ),
    "a registered dataclass": (
        "@register_type(name=__name__ + '{C}', version=2)\n@dataclass\nclass {C}:\n    user: str\n    key: {A}"
    ),
    "an attrs class": "@attrs.define\nclass {C}:\n    user: str\n    key: {A}",
    "an old attrs class": "@attr.s\nclass {C}:\n    user = attr.ib()\n    key = attr.ib(type={A})",
    "a struct": "class {C}(msgspec.Struct):\n    user: str\n    key: {A}",
    "a renamed struct": "class {C}(msgspec.Struct, rename='upper', kw_only=True):\n    user: str\n    key: {A}",
    "a named tuple": "class {C}(NamedTuple):\n    user: str\n    key: {A}",
    "a functional named tuple": "{C} = NamedTuple('{C}', [('user', str), ('key', {A})])",
    "a model": "class {C}(Model):\n    user: str\n    key: {A} = Field(alias='theKey')",
    "an inherited model": "class {C}_(Model):\n    user: str\n    key: {A}\nclass {C}({C}_):\n    more: int = 0",
    "a nested model": (
        "class {C}_(Model):\n    key: {A}\nclass {C}(Model):\n    user: str\n    inner: list[{C}_]\n"
        "    @classmethod\n    def model_construct(cls, user, key):\n"
        "        return super().model_construct(user=user, inner=[{C}_.model_construct(key=key)])"
    ),
    "a discriminated model": (
        "class {C}_(Model):\n    kind: Literal['a'] = 'a'\n    key: {A}\nclass {C}(Model):\n    user: str\n"
        "    inner: Union[{C}_, Other] = Field(discriminator='kind')\n"
        "    @classmethod\n    def model_construct(cls, user, key):\n"
        "        return super().model_construct(user=user, inner={C}_.model_construct(key=key))"
    ),
    "the extra fields of a model": (
        "class {C}(Model, extra='allow'):\n    __pydantic_extra__: dict[str, {A}]\n    user: str"
    ),
    "a cached property": (
        "@dataclass\nclass {C}:\n    user: str\n    key_: Annotated[str, Secret]\n    @cached_property\n"
        "    def key(self) -> {A}: return self.key_\n    def __post_init__(self): self.key"
    ),
}

DICTS = {
    "a typed dict": "class {C}(TypedDict):\n    user: str\n    key: {A}",
    "a typed dict of which nothing is required": "class {C}(TypedDict, total=False):\n    user: str\n    key: {A}",
    "a key that is not required": "class {C}(TypedDict):\n    user: str\n    key: NotRequired[{A}]",
    "a required key": "class {C}(TypedDict, total=False):\n    user: str\n    key: Required[{A}]",
    "an inherited key": (
        "class {C}_(TypedDict):\n    user: str\n    key: {A}\nclass {C}({C}_):\n    more: NotRequired[int]"
    ),
    "a functional typed dict": "{C} = TypedDict('{C}', {{'user': str, 'key': {A}}})",
    "another typed dict": "class {C}(typing_extensions.TypedDict):\n    user: str\n    key: {A}",
    "a generic typed dict": "class {C}(BoxDict[{A}]):\n    user: str",
}
DICT_WRAPS = {
    "alone": ("{}", "{}"),
    "optional": ("Optional[{}]", "{}"),
    "in a list": ("list[{}]", "[{}]"),
    "in a dict": ("Mapping[str, {}]", "{{'a': {}}}"),
    "in a class": ("Holder_{0}", "Holder_{0}({1})"),
    "in a generic class": ("Box[{}]", "Box({})"),
    "by name": ("Unpack[{}]", "{}"),
}

RAISED = {
    "an exception": (
        "class {C}(Exception):\n    def __init__(self, user, key: {A}):\n        super().__init__(user, key)\n"
        "        self.key = key"
    ),
    "an exception that keeps nothing": (
        "class {C}(Exception):\n    def __init__(self, user, key: {A}): super().__init__(user, key)"
    ),
    "an exception with fields": "@dataclass\nclass {C}(Exception):\n    user: str\n    key: {A}",
}

PRELUDE = """
import functools, inspect, typing, typing_extensions
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import *
import attr, attrs, limpet, msgspec, pydantic
from pydantic import Field
from limpet import RetryConfig, Secret, Tool, agent, register_type, tool
from {other} import elsewhere
if TYPE_CHECKING:
    from {other} import CheckedKey_str, CheckedKey_bytes
    from {unloaded}.aliases import UnloadedKey_str, UnloadedKey_bytes

T = TypeVar("T")
SECRETS = {{}}
CALLS = {{}}
TRIED = set()

class OwnSecret(Secret): pass
class Model(pydantic.BaseModel, arbitrary_types_allowed=True): pass
class Other(Model):
    kind: Literal["b"] = "b"
class ModelBox(Model, Generic[T]):
    value: T
@dataclass
class Box(Generic[T]):
    value: T
@dataclass
class UserBox(Generic[T]):
    user: str
    key: T
class BoxDict(TypedDict, Generic[T]):
    key: T
Twice = Sequence[T]
Key_str = Annotated[str, Secret]
Key_bytes = Annotated[bytes, Secret]
NewKey_str = NewType("NewKey_str", Key_str)
NewKey_bytes = NewType("NewKey_bytes", Key_bytes)
Bound_str = TypeVar("Bound_str", bound=Key_str)
Bound_bytes = TypeVar("Bound_bytes", bound="Annotated[bytes, Secret]")
Chosen_str = TypeVar("Chosen_str", int, Key_str)
Chosen_bytes = TypeVar("Chosen_bytes", int, Key_bytes)
TextKey_str = "Annotated[str, Secret]"
TextKey_bytes = Optional["Annotated[bytes, Secret]"]

def wrapping(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs): return await function(*args, **kwargs)
    return wrapper

def signed(function):
    async def wrapper(*args, **kwargs): return await function(*args, **kwargs)
    wrapper.__name__ = wrapper.__qualname__ = function.__name__
    wrapper.__signature__ = inspect.signature(function)
    return wrapper

def input_mode(context): return context

def work(number, mode):
    secret = SECRETS[number]
    if mode == "failed" or (mode == "retried" and number not in TRIED):
        TRIED.add(number)
        raise ValueError(f"refused {{secret}} or {{secret!r}}", secret, {{"key": [secret]}})
    return "public"

def checked(value, number, mode):
    return value

async def given(value, number, mode):
    return value

async def tell(number, mode):
    await telling(number, mode)

@tool
async def telling(number: int, mode: str):
    work(number, mode)

@agent
async def every_form(mode: str, numbers: list[int]) -> str:
    for number in numbers:
        for call in (CALLS[number], functools.partial(tell, number)):
            try:
                await call(mode)
            except Exception:
                pass
    if mode == "failed":
        raise RuntimeError("refused", [SECRETS[number] for number in numbers])
    return "zqx7public" + "".join(str(number) for number in range(30000))
"""

STATED = """
type Stated_str = Annotated[str, Secret]
type Stated_bytes = Annotated[bytes, Secret]
"""

LATER = """
LaterKey_str = Annotated[str, Secret]
LaterKey_bytes = Annotated[bytes, Secret]
"""

ALIASES = """
from typing import Annotated
from limpet import Secret as Hidden
{name}_str = Annotated[str, Hidden]
{name}_bytes = Annotated[bytes, Hidden]
"""

ELSEWHERE = """
import functools
def elsewhere(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs): return await function(*args, **kwargs)
    return wrapper
"""


@dataclass
class Form:
    """One way in which a program says that something is secret."""

    number: int
    what: str
    source: str
    """Declares it, and how it is called with a mode."""


class Forms:
    """All the forms, with the number that each one has."""

    def __init__(self, *, is_whole: bool) -> None:
        self._numbers = count()
        self._is_whole = is_whole

    def __iter__(self) -> Iterator[Form]:
        for each, (place, spelling) in enumerate(
            (p, s) for p in (*PARAMETERS, *WRAPPERS, *METHODS, *RESULTS) for s in SPELLINGS
        ):
            for kind in self._kinds(each):
                yield self._called(place, f"{place}, {spelling}", spelling, kind, SPELLINGS[spelling], "{}")
        for each, (place, wrap) in enumerate(
            (p, w) for p in ("by place", "named rest", "a handler", "a result") for w in WRAPS
        ):
            for kind in self._kinds(each):
                hint, value = WRAPS[wrap]
                yield self._called(place, f"{place} in {wrap}", "", kind, hint.format(SPELLINGS["annotated"]), value)
        for each, (family, spelling) in enumerate((f, s) for f in (*FIELDS, *RAISED) for s in SPELLINGS):
            for kind in self._kinds(each):
                yield self._field(family, spelling, kind, SPELLINGS[spelling], "{}")
        for each, (family, wrap) in enumerate((f, w) for f in FIELDS for w in WRAPS):
            for kind in self._kinds(each):
                hint, value = WRAPS[wrap]
                if family != "a cached property":
                    yield self._field(family, wrap, kind, hint.format(SPELLINGS["annotated"]), value)
        for each, (family, wrap, spelling) in enumerate(
            (f, w, s) for f in DICTS for w in DICT_WRAPS for s in SPELLINGS
        ):
            if self._is_whole or each % 5 == 0:
                for kind in self._kinds(each):
                    yield self._dict(family, wrap, spelling, kind)

    def _kinds(self, each: int) -> tuple[str, ...]:
        return ("str", "bytes") if self._is_whole else (("str", "bytes")[each % 2],)

    def _called(self, place: str, what: str, spelling: str, kind: str, hint: str, value: str) -> Form:
        number = next(self._numbers)
        name, given = f"form_{number}", value.format(f"SECRETS[{number}]")
        hint = hint.replace("{T}", kind)
        if place in METHODS:
            body, call = METHODS[place]
            body = f"class {name}:\n    {body}"
        else:
            decorated, call = PARAMETERS.get(place) or RESULTS.get(place) or (WRAPPERS[place], "{n}({v}, mode)")
            body = decorated if place in WRAPPERS else f"@tool\n{decorated}"
        slots = {"n": name, "i": number, "v": given, "A": hint}
        return Form(number, what, self._placed(number, spelling, kind, body.format(**slots), call.format(**slots)))

    def _field(self, family: str, what: str, kind: str, hint: str, value: str) -> Form:
        number = next(self._numbers)
        name = f"Form{number}"
        body = (FIELDS.get(family) or RAISED[family]).format(C=name, A=hint.replace("{T}", kind))
        made = ".model_construct" if "model" in family else ""
        given = f"{name}{made}(user='ada', key={value.format(f'SECRETS[{number}]')})"
        if "cached property" in family:
            given = given.replace("key=", "key_=")
        if "tuple" not in family and "exception" in family:
            given = given.replace("user=", "").replace("key=", "")
            body += f"\n@tool\nasync def form_{number}(mode): raise {given}"
            call = f"form_{number}(mode)"
        else:
            body += f"\n@tool\nasync def form_{number}(x, mode):\n    work({number}, mode)\n    return x"
            call = f"form_{number}({given}, mode)"
        return Form(number, f"{family}, {what}", self._placed(number, what, kind, body, call))

    def _dict(self, family: str, wrap: str, spelling: str, kind: str) -> Form:
        number = next(self._numbers)
        name = f"Form{number}"
        body = DICTS[family].format(C=name, A=SPELLINGS[spelling].replace("{T}", kind))
        hint, value = DICT_WRAPS[wrap]
        made = f"{{'user': 'ada', 'key': SECRETS[{number}]}}"
        hint, given = (hint.format(name), value.format(name, made) if wrap == "in a class" else value.format(made))
        if wrap == "in a class":
            body += f"\n@dataclass\nclass Holder_{name}:\n    held: {name}"
        if wrap == "by name":
            body += f"\n@tool\nasync def form_{number}(mode, **x: {hint}): return work({number}, mode)"
            call = f"form_{number}(mode, **{given})"
        else:
            body += (
                f"\n@tool\nasync def form_{number}(x: {hint}, mode) -> {hint}:\n    work({number}, mode)\n    return x"
            )
            call = f"form_{number}({given}, mode)"
        return Form(number, f"{family} {wrap}, {spelling}", self._placed(number, spelling, kind, body, call))

    def _placed(self, number: int, spelling: str, kind: str, body: str, call: str) -> str:
        source = f"{body}\nasync def call_{number}(mode): await {call}\nCALLS[{number}] = call_{number}\n"
        if spelling != "local":
            return source
        indented = "".join(f"    {line}\n" for line in source.splitlines())
        return f"def around_{number}():\n    LocalKey = Annotated[{kind}, Secret]\n{indented}around_{number}()\n"


def modules(name: str, forms: list[Form], *, is_text: bool) -> dict[str, str]:
    """The modules of a program with these forms, by their paths. ``is_text``: no annotation is evaluated."""
    start = "from __future__ import annotations\n" if is_text else ""
    stated = STATED if sys.version_info >= (3, 12) else ""
    body = PRELUDE.format(other=f"{name}_other", unloaded=f"{name}_unloaded") + stated
    return {
        f"{name}.py": start + body + "\n".join(form.source for form in forms) + LATER,
        f"{name}_other.py": ALIASES.format(name="CheckedKey") + ELSEWHERE,
        f"{name}_unloaded/__init__.py": "raise AssertionError('it was imported')\n",
        f"{name}_unloaded/aliases.py": ALIASES.format(name="UnloadedKey"),
    }
