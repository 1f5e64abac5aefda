"""The grammar of filter expressions, as RocketMQ has it (SelectorParser.jj).

NOT binds closer than any comparison, so that `NOT a = 1` compares a truth value with 1. An
expression ends where nothing that follows can belong to it: what stands behind is not read.
"""

from typing import Final

from lark import Lark, Token, UnexpectedToken

from aerobee.broker.features.sql92.builder import Builder
from aerobee.broker.features.sql92.errors import ExpressionError
from aerobee.broker.features.sql92.terms import Term
from aerobee.broker.features.sql92.tokens import KEYWORDS, SIGNS, place, tokens

END: Final = "$END"
SHOWN_CHARS_MAX: Final = 60
_LITERALS: Final = frozenset({"DECIMAL", "FLOAT", "STRING", "ID", "TRUE", "FALSE", "NULL"})
_WORDS: Final = {name: f"_{name}" for name in KEYWORDS.union(SIGNS.values()) - _LITERALS}

GRAMMAR: Final = f"""
    start: either

    ?either: both (_OR both)*

    ?both: equality (_AND equality)*

    ?equality: comparison
        | equality _EQUAL comparison      -> equal
        | equality _NOT_EQUAL comparison  -> not_equal
        | equality _IS NULL               -> is_null
        | equality _IS _NOT NULL          -> is_not_null

    ?comparison: unary
        | comparison _GREATER unary             -> greater
        | comparison _GREATER_EQUAL unary       -> greater_equal
        | comparison _LESS unary                -> less
        | comparison _LESS_EQUAL unary          -> less_equal
        | comparison _CONTAINS STRING           -> contains
        | comparison _NOT _CONTAINS STRING      -> not_contains
        | comparison _STARTSWITH STRING         -> starts_with
        | comparison _NOT _STARTSWITH STRING    -> not_starts_with
        | comparison _ENDSWITH STRING           -> ends_with
        | comparison _NOT _ENDSWITH STRING      -> not_ends_with
        | comparison _BETWEEN unary _AND unary       -> between
        | comparison _NOT _BETWEEN unary _AND unary  -> not_between
        | comparison _IN strings                -> among
        | comparison _NOT _IN strings           -> not_among

    strings: _OPEN STRING (_COMMA STRING)* _CLOSE

    ?unary: _PLUS unary
        | _MINUS unary  -> minus
        | _NOT unary    -> inverse
        | primary

    ?primary: STRING   -> string
        | DECIMAL      -> decimal
        | FLOAT        -> double
        | TRUE         -> true
        | FALSE        -> false
        | NULL         -> null
        | ID           -> variable
        | _OPEN either _CLOSE

    %declare {" ".join(sorted(_LITERALS.union(_WORDS.values())))}
"""

_PARSER: Final = Lark(GRAMMAR, parser="lalr", transformer=Builder())


def parse(expression: str) -> Term:
    """Return the condition that an expression describes.

    Raises ExpressionError, which names what was met and where.
    """
    parser = _PARSER.parse_interactive()
    last = Token(END, "<EOF>", max(len(expression) - 1, 0))
    for token in tokens(expression):
        try:
            parser.feed_token(_classed(token))
        except UnexpectedToken:
            last = token  # the expression ends before it, if it may end there
            break
    try:
        condition = parser.feed_token(Token(END, ""))
    except UnexpectedToken as unexpected:
        wanted = ", ".join(sorted(name.lstrip("_") for name in unexpected.expected - {END}))
        raise ExpressionError(
            f'Encountered "{last[:SHOWN_CHARS_MAX]}" at {place(expression, last.start_pos or 0)}. '
            f"Was expecting one of: {wanted}"
        ) from None
    assert isinstance(condition, Term), "the rule of the whole makes one"
    return condition


def _classed(token: Token) -> Token:
    """Give a token the name that it has in the grammar, where words that say no more have a _."""
    token.type = _WORDS.get(token.type, token.type)
    return token
