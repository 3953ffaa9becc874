"""Shared by all tests: pytest's own `pytester`, for runs inside runs."""

pytest_plugins = ["pytester"]
