"""The types of numpy, pandas and polars. None of these is ever imported here."""
