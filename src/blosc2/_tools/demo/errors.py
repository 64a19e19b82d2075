"""Errors that keep the demo from running."""


class DemoError(Exception):
    """The demo cannot start; the message says what to do about it."""
