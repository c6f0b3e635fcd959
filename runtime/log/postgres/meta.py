"""Opening a log on a server, and its table `meta`.

    schema      the number of the last migration
    since       the number of the earliest callboard that can use the log
    digest      how digests are computed
    key_check   8 bytes by which a digest key is recognised, in hex; "" for a log without one
    encryption  how the log is encrypted, see `cipher`; "" for plain text

Any number of processes may open one log at once: who writes a session is decided by its epoch.
"""

from typing import Final

from callboard.actors.protocol.errors import CorruptLog, StoreUnreadable
from callboard.runtime.log.cipher import Cipher, cipher_of, new_cipher
from callboard.runtime.log.hash_chain import DIGEST_KIND, HashChain
from callboard.runtime.log.postgres.link import Link
from callboard.runtime.log.postgres.migrating import check_version, migrate, newest, version
from callboard.runtime.log.postgres.schema import VIEW, check_age, check_server, quoted

_KEYS: Final = ("digest", "key_check", "encryption")  # `version` has asked for the others


def prepare(link: Link, hash_chain: HashChain, encryption_key: bytes | None) -> Cipher | None:
    """Make the schema a log that this connection writes. Return its cipher. Raises as `EventLog.open`."""
    where, schema = repr(link.address), link.address.schema
    link.connect()
    check_server(link.read, link.server, where)
    found = version(link.read, schema)
    check_version(found, where)
    if found.number < newest():

        def begin() -> None:
            description = "" if encryption_key is None else new_cipher(encryption_key).description
            rows = {"digest": DIGEST_KIND, "key_check": hash_chain.key_check, "encryption": description}
            for key, value in rows.items():
                link.execute(f"INSERT INTO {quoted(schema)}.meta VALUES (%s, %s)", (key, value))
            if not description:  # an encrypted one cannot be read by people
                link.execute(VIEW.replace("{s}", quoted(schema)))

        link.transact("making the tables", lambda: migrate(link.execute, schema, begin, where))
    return opened(link, hash_chain, encryption_key)


def opened(link: Link, hash_chain: HashChain | None, encryption_key: bytes | None) -> Cipher | None:
    """Check the keys of a log that is there, and return its cipher. Raises WrongKey, CorruptLog.

    hash_chain: None if no digest will be computed.
    """
    where, kept = repr(link.address), values(link)
    if kept["digest"] != DIGEST_KIND:
        raise CorruptLog(f"{where} is damaged: its table meta has no valid 'digest'; restore a copy")
    if hash_chain is not None:
        hash_chain.check_key(kept["key_check"], where)
    return cipher_of(kept["encryption"], encryption_key, where)


def check_readable(link: Link) -> None:
    """Refuse a place without a log, and one that this callboard cannot read. Raises StoreError."""
    where = repr(link.address)
    check_age(link.server, where)
    found = version(link.read, link.address.schema)
    if not found.number:
        raise StoreUnreadable(f"there is no log at {where}; give the address that it was written to")
    check_version(found, where)


def values(link: Link) -> dict[str, str]:
    """Return the values of the table `meta`. Raises CorruptLog."""
    found: dict[str, str] = dict(link.read(f"SELECT key, value FROM {quoted(link.address.schema)}.meta"))
    for key in _KEYS:
        if key not in found:
            raise CorruptLog(
                f"{link.address} is damaged: its table meta has no valid {key!r}; restore a copy of the log"
            )
    return found
