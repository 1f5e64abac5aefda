"""A client's connection to the broker: the one loop that every request of a socket read passes."""

import asyncio
from math import inf
from time import monotonic
from typing import Final

import msgspec

from aerobee.broker.front.refusing import without_sends
from aerobee.broker.front.traffic import Traffic
from aerobee.broker.front.unread import FULL_READ_BYTES, Unread, watch
from aerobee.broker.pulls.pull import Pull
from aerobee.broker.pulls.replies import refusal
from aerobee.broker.writing.stamps import Stamp
from aerobee.remoting.codes import RequestCode, SysFlag
from aerobee.remoting.command import FLAG_ONEWAY, Command
from aerobee.remoting.errors import RequestError
from aerobee.remoting.frame import HEADER_BYTES_MAX, LENGTH_BYTES, WORDS_BYTES, decode_payload
from aerobee.remoting.headers.envelopes import (
    DECODE_END,
    DECODE_ENVELOPE,
    DECODE_PULL,
    DECODE_SEND,
    decode_json_end,
    decode_json_send,
)
from aerobee.remoting.headers.pull import PullMessageRequest
from aerobee.remoting.headers.typed import decode_header
from aerobee.remoting.message.layout import FRAME_FIELDS
from aerobee.remoting.net.budget import Budget
from aerobee.remoting.net.connection import Connection
from aerobee.remoting.net.reading import ALL_SERVED, Rest, Served
from aerobee.storage.errors import LogBusy, StoreError

SEND: Final = RequestCode.SEND_MESSAGE_V2
BATCH: Final = RequestCode.SEND_BATCH_MESSAGE
SENDS: Final = frozenset({SEND, BATCH})
PART_FRAMES: Final = 32  # of a lone sender, that are answered before the others are served
PART_BYTES_MIN: Final = 8 * 1024  # of a read that may have more of them
PREPARED: Final = SysFlag.TRANSACTION_PREPARED
PULLS: Final = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
PLAIN_SEND: Final = b'{"code":%d,' % SEND
PLAIN_END: Final = b'{"code":%d,' % RequestCode.END_TRANSACTION

unpack_words = FRAME_FIELDS.run().unpack_from

Frames = list[bytes | memoryview]


class BrokerConnection(Connection):
    """Serves sends and pulls in place and hands every other request to the dispatcher.

    Work is done per socket read: the clock is asked once, acknowledgements and pull replies are
    collected and leave with the tick. A request that the fast path declines, for whatever reason,
    is decoded again in full and takes the checked path; so this loop never refuses anything.
    """

    __slots__ = ("overdue", "reply_bytes", "stamp", "traffic", "transacts", "unread")

    def __init__(self, traffic: Traffic, budget: Budget | None = None) -> None:
        super().__init__(traffic.dispatcher, traffic.limits, budget)
        self.traffic = traffic
        self.reply_bytes = 0  # of the pulls of this turn
        self.unread: Unread | None = None  # while reads are full
        self.overdue = False  # has waited long enough for room in the log: refuse, do not stall
        self.transacts = False  # the request before began a transaction, or ended one

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Prepare what every record of this peer carries."""
        super().connection_made(transport)
        self.stamp = Stamp(self.host_bytes, self.traffic.store_host)

    def serve(self, data: bytes, read_bytes: int) -> Served:
        """Serve the complete frames of a read; while reads are full, note how much, and when."""
        if read_bytes >= FULL_READ_BYTES or self.unread is not None:
            self._watch_unread(read_bytes)
        if not data:
            self._note_incomplete()
            return ALL_SERVED
        began_s = monotonic()
        acks: list[bytes] = []
        replies: Frames = []
        self.reply_bytes = 0
        given = 0
        if began_s > self.traffic.lateness.in_time_until_s or self.unread is not None:
            given = len(data)
            data = self._refuse_late(data, began_s, replies)
        try:
            at = self._first_part(data, acks) if self.traffic.tick.lone is self else 0
            gone = at and self.closed  # by the first answers
            rest, what = ALL_SERVED if gone else self._serve(data, at, acks, replies)
        finally:  # what was appended before an error is to be committed
            if acks:
                self.traffic.tick.acknowledge(self, acks, began_s)
            if replies:
                self.traffic.tick.answer(self, replies)
        if given and (unread := self.unread) is not None:
            left = len(rest)
            unread.serve(given - left, 0 if what is Rest.BEGUN else left)
        return rest, what

    def retry(self, *, overdue: bool) -> bool:
        """Serve what waited for room in the log; return whether some of it waits on.

        Where it is `overdue` its requests are refused instead.
        """
        self.overdue = overdue
        self.reading.go_on()
        self.overdue = False
        return not self.closed and bool(self.reading.backlog)

    def _serve(self, data: bytes, at: int, acks: list[bytes], replies: Frames) -> Served:
        """Serve frame after frame, as long as there is a turn for them and room in the log."""
        sends = self.traffic.sends
        send, serve_run = sends.send, sends.serve_run
        stamp, stamp_flag = self.stamp.at(self.traffic.now_ms()), self.stamp.sys_flag
        end_of_data, frame_bytes_max = len(data), self.limits.frame_bytes_max
        turns, run = self.limits.frames_per_turn_max - (PART_FRAMES if at else 0), 0
        while turns:
            if self.transacts:  # and so may the next one
                at, run = self._half_run(data, at, turns, stamp, acks)
            elif serve_run is not None:
                at, run = serve_run(data, at, turns, frame_bytes_max, stamp, stamp_flag, acks)
            if not (turns := turns - run):
                break
            turns, run = turns - 1, 0
            if end_of_data - at < WORDS_BYTES:
                return ALL_SERVED if at == end_of_data else (data[at:], Rest.BEGUN)
            length, word = unpack_words(data, at)
            end = at + LENGTH_BYTES + length
            if end > end_of_data or length < LENGTH_BYTES or length > frame_bytes_max:
                return data[at:], Rest.BEGUN  # what can be no frame is refused where it is kept
            served = False
            header_at = at + WORDS_BYTES
            header_end = header_at + (word & 0xFF_FFFF)
            if header_end <= end:
                header, body = data[header_at:header_end], data[header_end:end]
                try:
                    # as nearly all clients write it; the codec byte of JSON is 0
                    if word < HEADER_BYTES_MAX and header.startswith(PLAIN_SEND):
                        whole = decode_json_send(header)
                        fields, opaque = whole.ext_fields, whole.opaque
                        self.transacts = bool(fields.sys_flag & PREPARED)
                        if not whole.flag and send(fields, opaque, body, stamp, stamp_flag, acks):
                            at = end
                            continue
                    elif self.transacts and header.startswith(PLAIN_END):
                        served = self._end(header)
                    elif pulled := self._pull_run(data, at, turns + 1, replies):
                        (end, pulls), served = pulled, True
                        turns += 1 - pulls
                    else:
                        served = self._fast(word >> 24, header, body, stamp, acks, replies)
                        self.transacts = header.startswith(PLAIN_END)
                except LogBusy:
                    if not self.overdue:
                        self.traffic.stalls.add(self)
                        return data[at:], Rest.ASIDE
                except (msgspec.MsgspecError, UnicodeError, RecursionError, StoreError):
                    pass  # the checked path finds out what is wrong, and says so
            if not served:
                self._checked(data[at + LENGTH_BYTES : end], replies)
                if self.closed:
                    return ALL_SERVED
                if self.reading.unread_from:
                    return data[end:], Rest.ASIDE
            at = end
            if self.reply_bytes > self.limits.reply_bytes_per_turn_max:
                self.traffic.tick.schedule()  # runs first, and finds out whether the peer reads
                break
        return data[at:], Rest.LATER

    def _first_part(self, data: bytes, acks: list[bytes]) -> int:
        """Serve the first sends of a lone sender's read; return where they end.

        Where much is left they are answered: it would stand still while all is served, and the
        broker while it sends again. So both are at work.
        """
        serve_run, tick, limits = self.traffic.sends.serve_run, self.traffic.tick, self.limits
        if len(data) < PART_BYTES_MIN or limits.frames_per_turn_max <= PART_FRAMES:
            return 0
        if serve_run is None or self.transacts:
            return 0
        stamp, stamp_flag = self.stamp.at(self.traffic.now_ms()), self.stamp.sys_flag
        frame_bytes_max = limits.frame_bytes_max
        at, run = serve_run(data, 0, PART_FRAMES, frame_bytes_max, stamp, stamp_flag, acks)
        if run == PART_FRAMES and len(data) - at > at // 2:
            tick.acknowledge(self, acks.copy())
            acks.clear()
            tick.commit()
        return at

    def _note_incomplete(self) -> None:
        """Note that a read has brought nothing to serve, so that it is not taken for what waits."""
        if (unread := self.unread) is not None:
            backlog_bytes = len(self.reading.backlog)
            kept_bytes = self.reading.frame.held_bytes + backlog_bytes
            unread.late_bytes(kept_bytes, monotonic(), self.traffic.lateness.wait_s)
            unread.serve(0, backlog_bytes)

    def _watch_unread(self, read_bytes: int) -> None:
        """Tell who looks at the socket's queue of a read; begin to look, or end, by need."""
        unread, lateness = self.unread, self.traffic.lateness
        if unread is None:
            sock = self.transport.get_extra_info("socket")
            if lateness.wait_s == inf or sock is None or sock.fileno() < 0:
                return
            unread = self.unread = watch(sock.fileno())
        elif unread.is_over(inf if lateness.wait_s == inf else monotonic(), lateness.late_at_s):
            self.unread = None
        unread.read_bytes = read_bytes

    def _refuse_late(self, data: bytes, now_s: float, replies: Frames) -> bytes:
        """Answer the sends at the start of a read that waited for too long; return the others."""
        lateness = self.traffic.lateness
        late_bytes, waited_s, since_s = 0, lateness.wait_s, -inf
        if self.unread is None:
            self._watch_unread(len(data))  # from now on it is known how long each read waited
        if (unread := self.unread) is not None:
            late_bytes = unread.late_bytes(len(data), now_s, waited_s)
            since_s = -inf if lateness.stalled else unread.since_s
        if now_s > lateness.in_time_until_s and now_s - since_s > waited_s:
            late_bytes, waited_s = len(data), lateness.waited_s(now_s)
        if not late_bytes:
            return data
        remark = lateness.remark(waited_s, now_s)
        left, refusals, count = without_sends(
            data, late_bytes, self.limits.frame_bytes_max, remark, waited_s * 1000
        )
        lateness.refused += count
        replies += refusals
        if unread is not None:
            unread.refused += len(data) - len(left)
        self.traffic.tick.hurry(now_s)  # refusing takes long, too
        return left

    def _fast(
        self,
        codec: int,
        header: bytes,
        body: bytes,
        stamp: bytes,
        acks: list[bytes],
        replies: Frames,
    ) -> bool:
        """Serve a request with a JSON or msgpack header if it is an ordinary send or pull."""
        decode_envelope = DECODE_ENVELOPE.get(codec)
        if decode_envelope is None:
            return False
        envelope = decode_envelope(header)
        code = envelope.code
        if envelope.flag:
            if envelope.flag != FLAG_ONEWAY:
                return False
            acks = []  # nobody waits for them
            self.traffic.tick.schedule()
        if code in SENDS:
            fields = DECODE_SEND[codec](envelope.ext_fields)
            sends = self.traffic.sends
            serve = sends.send if code == SEND else sends.send_batch
            return serve(fields, envelope.opaque, body, stamp, self.stamp.sys_flag, acks, codec)
        if code in PULLS and not envelope.flag:
            wish = DECODE_PULL[codec](envelope.ext_fields)
            self._pull(Pull(self, wish, envelope.opaque, codec, code), replies)
            return True
        if code == RequestCode.END_TRANSACTION and envelope.flag and self.traffic.halves:
            return self.traffic.halves.end(DECODE_END[codec](envelope.ext_fields))
        return False

    def _half_run(
        self, data: bytes, at: int, frames_max: int, stamp: bytes, acks: list[bytes]
    ) -> tuple[int, int]:
        """Serve half messages and ENDs; return where they end and how many."""
        halves, stamp_flag = self.traffic.halves, self.stamp.sys_flag
        if halves is None or (serve_run := halves.serve_run) is None:
            return at, 0
        frame_bytes_max = self.limits.frame_bytes_max
        return serve_run(data, at, frames_max, frame_bytes_max, stamp, stamp_flag, acks)

    def _end(self, header: bytes) -> bool:
        """End a transaction by a JSON header, as `_fast` does it."""
        whole, halves = decode_json_end(header), self.traffic.halves
        if whole.flag != FLAG_ONEWAY or halves is None or not halves.end(whole.ext_fields):
            return False
        self.traffic.tick.schedule()
        return True

    def _pull_run(
        self, data: bytes, at: int, frames_max: int, replies: Frames
    ) -> tuple[int, int] | None:
        """Answer pulls that come again; return where they end and how many, None without any."""
        if (serve_run := self.traffic.pulls.serve_run) is None:
            return None
        room_bytes = self.limits.reply_bytes_per_turn_max - self.reply_bytes
        run = serve_run(self, data, at, frames_max, room_bytes, replies)
        if run is None:
            return None
        end, frames, reply_bytes = run
        self.reply_bytes += reply_bytes
        return end, frames

    def _pull(self, pull: Pull, replies: Frames) -> None:
        try:
            frames = self.traffic.pulls.serve(pull)
        except RequestError as error:
            frames = refusal(pull, error)
        except Exception as error:  # noqa: BLE001  of this pull alone
            frames = self.traffic.pulls.fault(pull, error)
        if frames is not None:
            replies += frames
            self.reply_bytes += sum(map(len, frames))

    def _checked(self, payload: bytes, replies: Frames) -> None:
        """Decode a request in full and hand it to whoever serves its code."""
        self._serve_checked(decode_payload(payload), replies)

    def _serve_checked(self, command: Command, replies: Frames) -> None:
        """Serve one that is decoded; a subclass may ask first whether it is to be."""
        if command.code in PULLS and not command.flag:
            try:
                wish = decode_header(PullMessageRequest, command.ext)
            except RequestError as error:
                self.send(command.reply(error.code, remark=error.remark))
            else:
                self._pull(Pull(self, wish, command.opaque, command.codec, command.code), replies)
            return
        self.traffic.tick.commit_log()  # what this read appended must be there to be asked for
        self.dispatch(command)
