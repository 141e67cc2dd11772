"""Makes failures inside the conformance suite as telling as those in test files."""

import pytest

pytest.register_assert_rewrite("holdfast.testing.conformance")
