"""The same in plain functions, without a line of asyncio. It breaks in the middle, and goes on."""

from __future__ import annotations

from pathlib import Path

from limpet import Limpet, agent, tool


@tool
def measure(place: str) -> int:
    print(f"measuring at {place}")
    if place == "reef" and not Path("reef.map").exists():
        raise FileNotFoundError("there is no map of the reef")
    return len(place)


@agent
def survey(places: list[str]) -> dict[str, int]:
    return {place: measure.call(place) for place in places}


def main() -> None:
    places = ["bay", "reef", "strait"]
    with Limpet("sqlite:///survey.db") as client:
        try:
            client.run_sync(survey, places, state_id="survey-1")
        except FileNotFoundError as error:
            print(f"failed: {error}")
        Path("reef.map").touch()
        print(client.run_sync(survey, places, state_id="survey-1"))


if __name__ == "__main__":
    main()
