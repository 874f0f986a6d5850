"""Tests, one module per module of the library."""
