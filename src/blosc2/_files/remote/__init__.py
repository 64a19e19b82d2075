"""Objects on servers, read through fsspec: which bytes are fetched, kept, and checked to be of one version.

Only this package imports fsspec, when a URL is opened. It moves bytes; what they mean is known elsewhere.
"""

from blosc2._files.remote.remote_file import RemoteFile, remote_source, renewed_source
from blosc2._files.remote.servers import uploaded

__all__ = ["RemoteFile", "remote_source", "renewed_source", "uploaded"]
