"""What replay has saved of model calls, while a state is taken up again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from limpet.model import Details


class Savings(msgspec.Struct):
    """What model calls had used that were given again instead of being executed."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def note(self, details: Details) -> None:
        """Take note of the details of a record that was given again."""
        if details.usage is not None:
            self.calls += 1
            self.tokens += details.usage.tokens
            self.cost += details.usage.cost

    def added_to(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """What was saved before, and this."""
        sums = {name: getattr(self, name) + before.get(name, 0) for name in self.__struct_fields__}
        return {name: amount for name, amount in sums.items() if amount}
