"""The broker as one object: what it is made of, in which order it starts, in which it stops."""

import asyncio
import ipaddress
import logging
import time
from collections.abc import Coroutine
from typing import Any, Final

from aerobee.broker.appending import Appender
from aerobee.broker.change_notices import ChangeNotices
from aerobee.broker.connection import BrokerConnection
from aerobee.broker.context import Context
from aerobee.broker.fast_sends import FastSends
from aerobee.broker.groups import GroupTable
from aerobee.broker.hold import SWEEP_INTERVAL_MS, Holds
from aerobee.broker.hooks import Hooks
from aerobee.broker.members import Members
from aerobee.broker.metrics import Metrics
from aerobee.broker.offsets import OffsetTable
from aerobee.broker.pulling import Pulls
from aerobee.broker.registration import Registration
from aerobee.broker.routes import FAMILIES
from aerobee.broker.settings import BrokerSettings
from aerobee.broker.system_topics import system_topics
from aerobee.broker.tick import Tick
from aerobee.broker.topic_queues import AckStyle, TopicQueues
from aerobee.broker.topics import TopicTable
from aerobee.broker.traffic import Stalls, Traffic
from aerobee.remoting.net.client import ConnectionPool
from aerobee.remoting.net.routes import Dispatcher
from aerobee.remoting.net.server import Server
from aerobee.remoting.record import host_bytes
from aerobee.storage.store import MessageStore
