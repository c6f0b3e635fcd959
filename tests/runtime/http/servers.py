"""Loopback servers that answer as a test says, and resolvers that say where a name is."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from callboard.runtime.http.settings import Http, Resolver

LOOPBACK = ["127.0.0.0/8"]
Answering: TypeAlias = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
"""Answers a request, given its head."""


@asynccontextmanager
async def server(answer: bytes | Answering, context: ssl.SSLContext | None = None) -> AsyncIterator["Served"]:
    """Run a server that gives one answer to each connection."""
    served = Served(0, [])

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            served.heads.append(head)
            if isinstance(answer, bytes):
                writer.write(answer)
            else:
                await answer(head, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            served.cut += 1  # the client has left, as tests of limits want it to
        finally:
            writer.close()

    running = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=context)
    served.port = running.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        running.close()


class Served:
    """A server that runs. heads: of the requests so far. cut: the answers that a client did not wait for."""

    def __init__(self, port: int, heads: list[str]) -> None:
        self.port = port
        self.heads = heads
        self.cut = 0

    def url(self, path: str = "", name: str = "a.example", scheme: str = "http") -> str:
        """Return the address of the server under a name."""
        return f"{scheme}://{name}:{self.port}/{path}"


def answer(body: bytes = b"hello", status: str = "200 OK", **headers: str) -> bytes:
    """Return an HTTP answer."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "connection: close", "", ""]).encode() + body


def resolver(*answers: Sequence[str]) -> Resolver:
    """Return a resolver that gives these answers in turn, and the last one from then on."""
    left = list(answers)

    async def resolve(name: str, port: int) -> Sequence[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


def at_loopback(**options: object) -> Http:
    """Return settings in which every name is at the loopback address, which may be reached."""
    return Http(private=LOOPBACK, resolver=resolver(["127.0.0.1"]), **options)  # type: ignore[arg-type]  # options of Http


def tls_contexts(name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the TLS contexts of a server with a certificate for a name, and of clients that trust it."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(datetime(2020, 1, 1)).not_valid_after(datetime(2099, 1, 1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    pem = made.sign(key, SHA256()).public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem + private)
        file.flush()
        served.load_cert_chain(file.name)
    return served, ssl.create_default_context(cadata=pem.decode())
