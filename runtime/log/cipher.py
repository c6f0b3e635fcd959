"""Encryption of a log at rest: bodies, large values, titles. Needs `callboard[encryption]`.

    stored  = nonce (12 random bytes) || AES-256-GCM(key, nonce, text, associated data) || tag (16 bytes)
    keys    = HKDF-SHA256(the user's key, salt of the log, info), 32 bytes each
    info    = "callboard/1 session " + session id    bodies and the title of a session
              "callboard/1 blobs"                    large values, which sessions share
              "callboard/1 tags"                     the digests by which tags are found
              "callboard/1 check"                    its first 8 bytes are kept to recognise the key
    associated data = MessagePack of ["event", session, seq], ["title", session], ["details", session],
                      ["live", session] (text of a reply under way, which is sent and not kept) or
                      ["blob", digest]

So a body that is moved to another place, of the same or of another session, does not decrypt. docs/log.md
says which parts are not encrypted.
"""

import os
from hashlib import blake2b
from typing import Any, Final, Literal, TypeAlias

import msgspec

from callboard.actors.protocol.errors import CorruptLog, MissingExtra, MisuseError, WrongKey

Place: TypeAlias = (
    tuple[Literal["event"], str, int]
    | tuple[Literal["title", "details", "live", "budget", "reservation"], str]
    | tuple[Literal["blob"], bytes]
)
KEY_BYTES_MIN: Final = 32
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_REMEMBERED_MAX: Final = 10_000
_NAME: Final = "aes-256-gcm hkdf-sha256 callboard/1"

_pack = msgspec.msgpack.Encoder().encode


class Unopenable(LookupError):
    """Bytes that do not decrypt: they were changed, or belong in another place."""


class Cipher:
    """Encrypts and decrypts for one log. place: to which the text belongs, see above."""

    def __init__(self, key: bytes, salt: bytes) -> None:
        check_size(key)
        self._aead, self._derive, self._invalid = _primitives(key, salt)
        self._keys: dict[bytes, Any] = {}
        check = self._derive(b"callboard/1 check")[:8]
        # Kept in the log: the kind of encryption, and a check by which the key is recognised.
        self.description = f"{_NAME} {salt.hex()} {check.hex()}"

    # Nonces are drawn at random, never counted: after a crash the same seq may be written again with another
    # body. One key is good for 2^32 of them (NIST SP 800-38D, 8.3), which is as many as a session can hold.
    def seal(self, place: Place, text: bytes) -> bytes:
        """Return the stored form of a text."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed: bytes = self._key(place).encrypt(nonce, text, _pack(place))
        return nonce + sealed

    def open(self, place: Place, stored: object) -> bytes:
        """Return the text. Raises Unopenable."""
        try:
            if not isinstance(stored, bytes):
                raise ValueError
            text: bytes = self._key(place).decrypt(stored[:_NONCE_BYTES], stored[_NONCE_BYTES:], _pack(place))
        except (ValueError, self._invalid):
            raise Unopenable("it does not decrypt") from None
        return text

    def tag(self, text: str) -> str:
        """Return the digest that stands for a tag in the file, the same for equal tags."""
        key = self._derive(b"callboard/1 tags")
        return blake2b(text.encode(), digest_size=16, key=key, person=b"callboard/tag").hexdigest()

    def _key(self, place: Place) -> Any:
        is_blob = place[0] == "blob"
        info = b"callboard/1 blobs" if is_blob else b"callboard/1 session " + str(place[1]).encode()
        if info not in self._keys:
            if len(self._keys) >= _REMEMBERED_MAX:
                self._keys.clear()
            self._keys[info] = self._aead(self._derive(info))
        return self._keys[info]


def new_cipher(key: bytes) -> Cipher:
    """Return the cipher of a new log."""
    return Cipher(key, os.urandom(_SALT_BYTES))


def cipher_of(description: str, key: bytes | None, where: str) -> Cipher | None:
    """Return the cipher for a log's description, None if it is not encrypted. Raises WrongKey, CorruptLog."""
    if not description:
        if key is not None:
            raise WrongKey(f"{where} was made without encryption; leave the encryption key out")
        return None
    name, _, rest = description.rpartition(" ")[0].rpartition(" ")
    if name != _NAME:
        raise WrongKey(
            f"{where} is encrypted in a way that this callboard does not know; use a newer one, or restore "
            f"a copy if the file is damaged"
        )
    if key is None:
        raise WrongKey(
            f"{where} is encrypted: pass the key with which it was created (encryption_key=..., or "
            f"--encryption-key-file); without it its sessions cannot be read"
        )
    try:
        cipher = Cipher(key, bytes.fromhex(rest))
    except ValueError:
        raise CorruptLog(f"{where} is damaged: its encryption has no valid salt; restore a copy") from None
    if cipher.description != description:
        raise WrongKey(f"{where} was encrypted with another key; pass that one, because no other opens it")
    return cipher


def check_size(key: bytes) -> None:
    """Refuse a key that is too short. Raises MisuseError."""
    if len(key) < KEY_BYTES_MIN:
        raise MisuseError(
            f"an encryption key has at least {KEY_BYTES_MIN} random bytes, not {len(key)}: make one with "
            f"`openssl rand -hex 32`; a password is not a key"
        )


def _primitives(key: bytes, salt: bytes) -> tuple[Any, Any, type[Exception]]:
    """Return AES-GCM, the derivation of keys, and the exception for a wrong tag."""
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError:
        raise MissingExtra(
            "an encrypted log needs the library `cryptography`: pip install 'callboard[encryption]'"
        ) from None

    def derive(info: bytes) -> bytes:
        return HKDF(SHA256(), 32, salt, info).derive(key)

    return AESGCM, derive, InvalidTag
