"""Stores or a cluster: decided here, once, by the options of a query."""

from __future__ import annotations

from aerobee.spark.feeds.feed import Feed
from aerobee.spark.options.query import Options


def open_feed(options: Options) -> Feed:
    """The feed that the options name: nothing behind it asks again which one it is."""
    if options.network is not None:
        from aerobee.spark.feeds.cluster import ClusterFeed

        return ClusterFeed(options, options.network)
    from aerobee.spark.feeds.stores import StoreFeed

    return StoreFeed(options)
