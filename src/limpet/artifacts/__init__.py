"""Large values: what they look like as artifacts, and how they come back. Knows no run and no journal."""
