"""The one place that states the version of this distribution."""

__version__ = "1.0.0.dev0"
