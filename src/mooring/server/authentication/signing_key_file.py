"""The key that signs service account tokens, kept beside the certificates: a new one would end every token."""

from pathlib import Path

from mooring.server.authentication.json_web_tokens import SigningKey
from mooring.server.private_files import write_private

NAME = "sa.key"


class BadSigningKey(Exception):
    """The file is there and is no key; the text says what to do."""


def ensure_signing_key(directory: Path) -> SigningKey:
    """The one in the folder, or a new one, saved for its owner alone. Raises BadSigningKey."""
    file = directory / NAME
    try:
        return SigningKey.from_pem(file.read_bytes())
    except FileNotFoundError:
        key = SigningKey.new()
        write_private(file, key.to_pem())
        return key
    except ValueError as error:
        raise BadSigningKey(
            f"{file} does not hold a key for service account tokens ({error}): restore it, or remove it to get a new "
            f"one, which ends all tokens given out so far."
        ) from error
