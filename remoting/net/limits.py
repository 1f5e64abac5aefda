"""Every limit of the network layer, by name: what one peer, and all peers together, may take."""

import msgspec

KIB = 1024
MIB = 1024 * KIB


class NetLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What peers may take of this process's memory and time; the defaults suit a broker.

    Times are seconds. Where RocketMQ has the same limit, its value is the default and its
    setting is named.
    """

    frame_bytes_max: int = 16 * MIB  # com.rocketmq.remoting.frameMaxLength
    """The length word of a frame may say at most this; more closes the connection."""

    frame_timeout_s: float = 60.0
    """A frame that has begun to arrive must be complete by then; time in which the peer is not read
    from does not count."""

    partial_bytes_max: int = 256 * MIB
    """Unfinished frames of all connections together; past it the oldest one is cut off."""

    idle_timeout_s: float = 120.0  # serverChannelMaxIdleTimeSeconds
    """A connection on which nothing has arrived for so long is closed."""

    sweep_interval_s: float = 1.0
    """How often connections are looked at for the time-outs above and below."""

    handshake_timeout_s: float = 10.0
    """How long a TLS handshake may take, and its first byte where nothing but TLS is served."""

    handshakes_max: int = 1024
    """TLS handshakes under way at once; past it the oldest one is cut off: who means it takes
    milliseconds."""

    write_pause_bytes: int = 256 * KIB
    """With more than this unsent the peer's requests are no longer read ..."""

    write_resume_bytes: int = 64 * KIB
    """... until so little is left."""

    write_bytes_max: int = 64 * MIB
    """With more than this unsent to one peer (a slow reader) its connection is cut."""

    write_timeout_s: float = 60.0
    """A peer that stays above `write_resume_bytes` for so long after a pause is cut."""

    unsent_bytes_max: int = 512 * MIB
    """Unsent bytes of all paused connections; past it the one paused longest is cut."""

    connections_max: int = 20_000
    """Connections of one server; further ones are closed as they are accepted."""

    accepts_per_turn_max: int = 128
    """Connections accepted before other work gets its turn."""

    accept_pause_s: float = 0.5
    """How long no connection is accepted when the process is out of file descriptors."""

    frames_per_turn_max: int = 128
    """Requests of one connection handled before other connections get their turn."""

    reply_bytes_per_turn_max: int = 1 * MIB
    """Bytes of pull replies to one connection before it has to take them and others get a turn."""

    waiting_requests_max: int = 1024
    """With so many of its requests waiting, for a disk or a nameserver, a peer is not read from."""

    waiting_bytes_max: int = 32 * MIB
    """The same in bytes of their bodies."""

    waiting_total_bytes_max: int = 256 * MIB
    """Bodies of waiting requests of all connections; past it those that add to them are not read
    from until one of theirs is answered."""

    calls_max: int = 65_536
    """Calls of ours that may wait for their reply on one connection."""

    connect_timeout_s: float = 3.0  # connectTimeoutMillis
    """How long connecting to a peer may take, name look-up and TLS handshake included."""

    close_timeout_s: float = 5.0
    """How long a connection that is being closed may take to send what it still holds."""
