"""What the Spark source refuses or cannot read, each with a text that says what to do.

AerobeeError
├── OptionError        an option or schema of the query is wrong: correct the query
├── StoreUnreadable    the path holds no readable log, or a file of it went away: see the path
│   └── DataLost       messages that were asked for are gone: the text names their ranges
├── ClusterUnreachable  a nameserver or broker does not answer, or refuses: see its address
├── ExportRefused      the target folder may not be written as asked: another folder or option
├── ExportFailed       the target could not be written (a full disk, permissions)
├── VersionsDiffer     a task's machine has another aerobee than the driver: install the same
└── JavaMissing        no Java that Spark can use: install one, or the `jdk` extra
"""

from aerobee.remoting.errors import AerobeeError


class OptionError(AerobeeError, ValueError):
    """An option or the schema of a query is wrong; the text names it and what is allowed."""


class StoreUnreadable(AerobeeError):
    """The store's files cannot be read as planned; the text names the file and the reason."""


class DataLost(StoreUnreadable):
    """Messages that a read asked for are gone; the text names queues and offsets, or positions."""


class ClusterUnreachable(AerobeeError):
    """A nameserver or broker gives no answer that a read or write could go on with.

    The text names it, what was asked, what came back, and what to look at.
    """


class VersionsDiffer(AerobeeError):
    """The machine of a task has another version of this package; the text names both."""


class ExportRefused(AerobeeError):
    """The export's target folder cannot be used as asked; nothing was written or removed."""


class ExportFailed(AerobeeError):
    """The export's files could not be written; the earlier content of the target is untouched."""


class JavaMissing(AerobeeError):
    """Spark needs Java 17 or later, and none was found; the text says where was looked."""
