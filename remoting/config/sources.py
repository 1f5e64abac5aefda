"""Where the values of settings come from: a file, variables, options, files with secrets."""

from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from aerobee.remoting.config.java_properties import parse_java_properties
from aerobee.remoting.config.secret_keys import (
    FILE,
    file_key_of,
    is_secret,
    open_to_others,
    plain_key,
    read_secret,
)
from aerobee.remoting.errors import AerobeeError

ENV_PREFIX: Final = "AEROBEE_"
OPTION: Final = "option"
FILE_BYTES_MAX: Final = 1 << 20  # a settings file is typed by hand; anything larger is a mistake
CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"
"""Where systemd puts what a unit's `LoadCredential=` names: a file of a secret key is its value."""


class SourceError(AerobeeError):
    """A file, or the folder of credentials, cannot be read; the text says which, and why."""


class Given(NamedTuple):
    """One value as somebody wrote it, and where."""

    value: str
    origin: str  # "option", "AEROBEE_LISTEN_PORT", "in broker.conf"
    outweighs_file: bool = True


class SettingPlaces(NamedTuple):
    """Where somebody may have given values: the settings file, variables, options."""

    file: Path | None
    environ: Mapping[str, str]
    options: Mapping[str, str]


def sources(
    places: SettingPlaces, known: Container[str], variables: Mapping[str, str]
) -> Iterator[tuple[str, Given]]:
    """Yield every value that somebody gave with its key, the weakest source first.

    `known` are the plain keys that there are; `variables` are those of others, each with the key
    that it stands for. Raises SourceError where a file cannot be read.
    """
    for variable, key in variables.items():
        if places.environ.get(variable, "").strip():
            yield key, Given(places.environ[variable], variable, outweighs_file=False)
    if places.file is not None:
        for key, value in _read(places.file).items():
            yield key, Given(value, f"in {places.file}", outweighs_file=False)
    yield from _credentials(places.environ.get(CREDENTIALS, ""), known)
    for variable, value in sorted(places.environ.items()):
        if variable.startswith(ENV_PREFIX):
            yield variable.removeprefix(ENV_PREFIX), Given(value, variable)
    for key, value in places.options.items():
        yield key, Given(value, OPTION)


def with_secrets(
    file: Path | None,
    found: Iterable[tuple[str, Given]],
    known: Mapping[str, str],
    warnings: list[str],
    problems: list[str],
) -> Iterator[tuple[str, Given]]:
    """Yield what sources give, with what files have for secrets in the place of their names.

    Where a file names one, no settings file decides on it: code 25 would write it down beside it.
    """
    given: set[tuple[str, str]] = set()  # secrets, and by which source
    files: set[Path] = set()
    for key, value in found:
        of = file_key_of(key)
        names_file = of in known and plain_key(key) not in known
        if names_file or (is_secret(key) and value.value.strip()):
            source = ENV_PREFIX if value.origin.startswith(ENV_PREFIX) else value.origin
            secret = known.get(of if names_file else plain_key(key), key), source
            if secret in given:
                problems.append(f"{key} ({value.origin}): both it and a file for it are given")
                continue
            given.add(secret)
        if names_file:
            path = Path(value.value.strip())
            try:
                value = Given(read_secret(value.value), f"by {key}, {value.origin}")
            except ValueError as error:
                problems.append(f"{key} ({value.origin}): {error}")
                continue
            files.add(path)
            key = known[of]
        elif is_secret(key) and value.value.strip():
            if value.origin == OPTION:
                warnings.append(f"{key} can be seen in the list of processes: use {key}{FILE}")
            elif file is not None and not value.outweighs_file:
                files.add(file)
        yield key, value
    warnings += filter(None, map(open_to_others, sorted(files)))


def _credentials(folder: str, known: Container[str]) -> Iterator[tuple[str, Given]]:
    """Yield the files of a folder that are named after secrets; others in it are for others."""
    try:
        found = sorted(Path(folder).iterdir()) if folder else []
    except OSError as error:
        raise SourceError(f"cannot read {CREDENTIALS}={folder}: {error.strerror}") from None
    for path in found:
        key = path.name.removeprefix("aerobee.")
        if is_secret(key) and plain_key(key) in known:
            yield key + FILE, Given(str(path), f"credential {path.name}")


def _read(file: Path) -> dict[str, str]:
    """Read a properties file; raise SourceError that says why it cannot be."""
    try:
        with file.open("rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise SourceError(f"{file}: over {FILE_BYTES_MAX} bytes, this is no settings file")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = data.decode("latin-1")  # what java.util.Properties reads
        return parse_java_properties(text)
    except OSError as error:
        raise SourceError(f"cannot read settings file {file}: {error.strerror}") from None
    except ValueError as error:
        raise SourceError(f"{file}: {error}") from None
