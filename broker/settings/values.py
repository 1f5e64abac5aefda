"""Types of settings that several rooms share."""

from typing import Annotated, Final

from pydantic import Field

_MILLISECONDS_MAX: Final = 7 * 24 * 3600 * 1000

Milliseconds = Annotated[int, Field(gt=0, le=_MILLISECONDS_MAX)]
