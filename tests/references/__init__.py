"""Slow, obvious numpy: what the library must agree with."""
