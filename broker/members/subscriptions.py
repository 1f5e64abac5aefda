"""Which messages a subscription wants: tag expressions and SQL92, as the broker sees them.

Of tags the broker compares hashes only, so two tags with one hash both pass; the client compares
the text. SQL92 it decides alone (FilterAPI, ExpressionMessageFilter, ConsumerFilterManager).
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from aerobee.remoting.bodies import SubscriptionData
from aerobee.remoting.clocks import steady_clock_ms
from aerobee.remoting.codes import ResponseCode
from aerobee.remoting.errors import RequestError
from aerobee.remoting.message.tags import java_string_hash
from aerobee.remoting.words import TAG

log = logging.getLogger(__name__)

ALL: Final = "*"
_SEPARATOR: Final = "||"
COMPILED_CHARS_PER_S: Final = 64 << 10  # a third of one core
COMPILED_CHARS_AT_ONCE: Final = 512 << 10  # as when thousands of groups come back to a new process


Scan = Callable[[memoryview], bool | None]
"""Says of a record whether it is wanted; None means that the time of its walk is up."""
Language = Callable[[str], Callable[[], Scan]]
"""Compiles an expression to what begins a walk over records; raises ExpressionRefused."""


class ExpressionRefused(Exception):
    """An expression that cannot be compiled; the text says what is wrong, and where."""


class SqlFilter:
    """An expression that decides by a message's properties; compiled when it is first needed.

    So a heartbeat with a thousand of them costs nothing before somebody pulls.
    """

    __slots__ = ("_compiled", "_problem", "expression", "expression_type")

    def __init__(self, expression: str, expression_type: str) -> None:
        self.expression = expression
        self.expression_type = expression_type
        self._compiled: Callable[[], Scan] | None = None
        self._problem: str | None = None

    def same(self, other: "SqlFilter") -> bool:
        """Whether another filter would decide alike."""
        return (self.expression == other.expression) and (
            self.expression_type == other.expression_type
        )

    @property
    def asked(self) -> bool:
        """Whether `problem` was asked before: then it is quick."""
        return self._compiled is not None or self._problem is not None

    def problem(self, language: Language) -> str | None:
        """Compile, and say what is wrong with the expression, if anything."""
        if not self.asked:
            try:
                self._compiled = language(self.expression)
            except ExpressionRefused as error:
                self._problem = str(error)
                log.warning("filter_refused expression=%.200r error=%s", self.expression, error)
        return self._problem

    def scan(self) -> Scan:
        """Return what a read asks of each record."""
        assert self._compiled is not None, "problem() was asked before"
        return self._compiled()


MessageFilter: TypeAlias = frozenset[int] | SqlFilter
"""The tag hashes that a pull wants, or an expression; no filter (None) wants every message."""


class SqlFilters:
    """The latest expressions that pulls and checks brought, and how much may be compiled.

    Holds at most `chars_max` characters of expressions, each of which counts for some more. Of all
    clients together COMPILED_CHARS_PER_S are compiled, after a first COMPILED_CHARS_AT_ONCE: it
    takes microseconds a character, and only new expressions take it.
    """

    def __init__(
        self, chars_max: int = 256 << 10, clock_ms: Callable[[], int] = steady_clock_ms
    ) -> None:
        self.languages: dict[str, Language] = {}  # by type of expression: features bring them
        self._chars_max = chars_max
        self._chars = 0
        self._known: OrderedDict[tuple[str, str], SqlFilter] = OrderedDict()
        self._clock_ms = clock_ms
        self._allowed_chars = COMPILED_CHARS_AT_ONCE
        self._allowed_ms = clock_ms()  # when that was so

    def get(self, expression: str, expression_type: str) -> SqlFilter:
        """Return the filter of an expression, made when it is new."""
        key = (expression, expression_type)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return known
        made = self._known[key] = SqlFilter(expression, expression_type)
        self._chars += _weight(made)
        while self._chars > self._chars_max and len(self._known) > 1:
            _, oldest = self._known.popitem(last=False)
            self._chars -= _weight(oldest)
        return made

    def problem(self, wanted: SqlFilter) -> str | None:
        """Compile a filter that is not, and say what is wrong with it, if anything.

        Raises RequestError (SYSTEM_BUSY) where too much had to be compiled lately.
        """
        language = self.languages.get(wanted.expression_type)
        if language is None:
            return f"there is no filter of type {wanted.expression_type}"
        if not wanted.asked:
            self._allow(min(len(wanted.expression), COMPILED_CHARS_AT_ONCE))
        return wanted.problem(language)

    def __len__(self) -> int:
        return len(self._known)

    def _allow(self, chars: int) -> None:
        now_ms = self._clock_ms()
        earned = (now_ms - self._allowed_ms) * COMPILED_CHARS_PER_S // 1000
        if earned:
            self._allowed_chars = min(self._allowed_chars + earned, COMPILED_CHARS_AT_ONCE)
            self._allowed_ms = now_ms
        if chars > self._allowed_chars:
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                f"an expression of {chars} characters must wait: too many new ones came, "
                f"{COMPILED_CHARS_PER_S} characters per second are compiled",
            )
        self._allowed_chars -= chars


def is_tag_type(expression_type: str | None) -> bool:
    """Whether an expression is a list of tags; no type at all means that it is."""
    return not expression_type or expression_type == TAG  # ExpressionType.isTagType


def check_property_filter(expression_type: str, *, enabled: bool) -> None:
    """Refuse expressions over properties where enablePropertyFilter is false, as by default."""
    if not enabled:
        raise RequestError(
            ResponseCode.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {expression_type}",
        )


def parse_tags(expression: str | None) -> frozenset[str] | None:
    """Return the tags of `a || b`, or None for an expression that wants every message.

    Raises RequestError (SUBSCRIPTION_PARSE_FAILED) for an expression of separators only.
    """
    if not expression or expression == ALL:
        return None
    parts = expression.split(_SEPARATOR)
    if not any(parts):  # Java's split of "||" has no parts at all
        raise RequestError(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed"
        )
    return frozenset(filter(None, (part.strip() for part in parts)))


def tag_hashes(tags: Iterable[str]) -> frozenset[int]:
    """Return the hashes by which the ConsumeQueue knows these tags."""
    return frozenset(map(java_string_hash, tags))


def wanted_hashes(expression: str | None) -> frozenset[int] | None:
    """Return the hashes that a tag expression wants, or None when it wants every message."""
    tags = parse_tags(expression)
    return None if tags is None else tag_hashes(tags)


def filter_of(subscription: SubscriptionData, known: MessageFilter | None) -> MessageFilter | None:
    """Return what a subscription wants; hashes are the client's own where it sent them.

    An expression that has not changed stays compiled. In class filter mode, of which nothing but
    the flag is left, RocketMQ's broker filters nothing.
    """
    expression, expression_type = subscription.sub_string, subscription.expression_type
    if subscription.class_filter_mode:
        return None
    if not is_tag_type(expression_type):
        made = SqlFilter(expression, expression_type)
        return known if isinstance(known, SqlFilter) and known.same(made) else made
    if expression in ("", "*"):
        return None
    if subscription.code_set:
        return frozenset(subscription.code_set)
    try:
        return wanted_hashes(expression)
    except RequestError:
        return frozenset()  # separators only: it wants nothing, and the heartbeat is not refused


def _weight(kept: SqlFilter) -> int:
    """Count a remembered filter; its own objects are worth some characters too."""
    return 200 + len(kept.expression) + len(kept.expression_type)
