"""The adapter for polars frames and series: Arrow's file format, as any Arrow library reads it. Imports no library."""

from __future__ import annotations

import io
import sys
from typing import Any

from limpet.artifacts.adapters import ArtifactAdapter, Source
from limpet.errors import ValueNotReadable
from limpet.model.artifacts import Content, content_of

_SERIES = "series"
_MOST_COLUMNS = 8


class ArrowAdapter(ArtifactAdapter):
    """Frames and series of every dtype without Python objects."""

    name = "arrow"
    type_names = ("polars.dataframe.frame:DataFrame", "polars.series.series:Series")

    def accepts(self, value: Any) -> bool:
        polars = sys.modules["polars"]
        dtypes = value.dtypes if isinstance(value, polars.DataFrame) else [value.dtype]
        return not any(_holds_objects(dtype) for dtype in dtypes)

    def size(self, value: Any) -> int:
        return value.estimated_size()

    def content(self, value: Any) -> Content:
        frame = value if hasattr(value, "columns") else value.to_frame()
        file = io.BytesIO()
        frame.write_ipc(file, compression="uncompressed")
        return content_of(file.getvalue())

    def details(self, value: Any) -> str:
        return "" if hasattr(value, "columns") else _SERIES

    def read(self, source: Source) -> Any:
        polars = sys.modules.get("polars")
        if polars is None:
            raise ValueNotReadable("polars:DataFrame", "module 'polars' is not imported in this program")
        try:
            frame = polars.read_ipc(io.BytesIO(source.read()))
        except BaseException as error:
            # A panic inside polars is no Exception, and must not pass for an interrupt.
            if type(error).__name__ != "PanicException":
                raise
            raise ValueNotReadable("polars:DataFrame", f"polars cannot read it ({error})") from error
        return frame.to_series(0) if source.reference.details == _SERIES else frame

    def preview(self, value: Any) -> str:
        if not hasattr(value, "columns"):
            return f"series {value.name!r} {value.dtype} of {len(value):,}"
        columns = [f"{name} {dtype}" for name, dtype in list(value.schema.items())[:_MOST_COLUMNS]]
        more = ["…"] if value.width > _MOST_COLUMNS else []
        return f"{value.height:,} × {value.width:,}: {', '.join(columns + more)}"


def _holds_objects(dtype: Any) -> bool:
    # The text of a nested dtype names what is inside it.
    return "Object" in str(dtype)


ARROW = ArrowAdapter()
