"""The settings of access control, which are those of every server."""

from aerobee.remoting.net.access.keys import AccessKeys

__all__ = ["AccessKeys"]
