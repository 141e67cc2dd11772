"""Writes the tables of settings into the reference, from the model. ``tests/guards`` holds that they are as it says."""

from __future__ import annotations

from pathlib import Path

from limpet.config.reference import with_reference

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "configuration.md"


def main() -> None:
    PAGE.write_text(with_reference(PAGE.read_text()))
    print(f"{PAGE} is written")


if __name__ == "__main__":
    main()
