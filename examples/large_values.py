"""A large page, a file and a key: stored once, streamed, and never stored."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from limpet import ArtifactFile, Limpet, Secret, agent, tool


@tool
def fetch(url: str, api_key: Annotated[str, Secret]) -> str:
    print(f"fetching {url}")
    return f"all that is known about kelp, with the key of {len(api_key)} letters. " * 2000


@tool
def archive(pages: list[str]) -> ArtifactFile:
    path = Path("archive.txt")
    path.write_text("\n".join(pages))
    return ArtifactFile(path)


@agent
def collect_pages(count: int, api_key: Annotated[str, Secret]) -> str:
    pages = [fetch.call(f"https://example.org/kelp/{number}", api_key) for number in range(count)]
    stored = archive.call(pages)
    return f"{stored.name}: {stored.size} bytes"


def main() -> None:
    with Limpet("sqlite:///pages.db") as client:
        print(client.run_sync(collect_pages, 3, "sk-123", state_id="pages-1"))
        assert client.artifacts is not None
        print(f"{len(client.artifacts.list_artifacts())} artifacts, the page among them once")
        print(f"to collect: {len(client.collect(grace=timedelta(0), dry_run=True).deleted)}")


if __name__ == "__main__":
    main()
