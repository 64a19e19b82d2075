"""How zarr reads arrays and stores where they are: a codec for their chunks, and references to these.

The codec's classes for zarr and numcodecs are found by entry points; nothing else imports them.
"""
