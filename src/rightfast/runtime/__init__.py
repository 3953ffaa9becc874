"""The runtime under the libraries, for anybody's kernels: a tuner and a launcher."""

from .launcher import Launch, cdiv, launchable

__all__ = ["Launch", "cdiv", "launchable"]
