"""Administration of a cluster over the remoting protocol."""

from aerobee.admin.client import AdminClient, BrokerEntry

__all__ = ["AdminClient", "BrokerEntry"]
