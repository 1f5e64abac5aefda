"""Administration of a cluster over the remoting protocol."""

from aerobee.admin.client import AdminClient

__all__ = ["AdminClient"]
