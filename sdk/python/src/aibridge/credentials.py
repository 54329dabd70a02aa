"""What a client shows to a bridge: a key, a token or a certificate."""

from __future__ import annotations

import base64
import json
import os
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Mapping, Optional, Union

from . import errors
from ._mqtt import Login

if TYPE_CHECKING:
    from .client import Client

PathLike = Union[str, "os.PathLike[str]"]
TokenSource = Union[Callable[[], str], PathLike]

RETRY = 10.0  # seconds until a renewal that failed is tried again


class Credential:
    """Nothing at all, which only a bridge with ``--dev`` lets in."""

    def login(self) -> Login:
        """What the next connection shows. Asked before every connection."""
        return Login()

    def prepare(self, context: ssl.SSLContext) -> None:
        """Put a certificate into the context of the next connection."""

    def due(self) -> Optional[float]:
        """The seconds until the credential is to be renewed; None for never."""
        return None

    def renew(self, client: "Client") -> bool:
        """Get a newer one. True if there is one now, for the next connection."""
        return False


class Key(Credential):
    """An API key."""

    def __init__(self, key: str) -> None:
        self._key = key

    def login(self) -> Login:
        return Login("apikey", self._key)


class Password(Credential):
    """A user name and a password, for bridges that know such."""

    def __init__(self, username: str, password: str) -> None:
        self._login = Login(username, password)

    def login(self) -> Login:
        return self._login


class Token(Credential):
    """A JSON Web Token, from a function that yields one or a file that has one.

    It is asked for before every connection, and again when four fifths of the
    time that is left are over: a newer one is shown by a new connection at once,
    so that the old one never runs out.
    """

    def __init__(self, source: TokenSource) -> None:
        self._source = source if callable(source) else _reader(Path(source))
        self._expires: Optional[float] = None
        self._next = 0.0

    def login(self) -> Login:
        token = self._source()
        self._expires = expiry(token)
        self._plan()
        return Login("jwt", token)

    def _plan(self) -> None:
        if self._expires is not None:
            self._next = time.monotonic() + max((self._expires - time.time()) * 0.8, 1.0)

    def due(self) -> Optional[float]:
        return None if self._expires is None else max(self._next - time.monotonic(), 0.0)

    def renew(self, client: "Client") -> bool:
        self._next = time.monotonic() + min(RETRY, max(((self._expires or 0) - time.time()) * 0.8, 1.0))
        newer = expiry(self._source())
        return newer is None or self._expires is None or newer > self._expires


def _reader(path: Path) -> Callable[[], str]:
    return lambda: path.read_text("utf-8").strip()


def expiry(token: str) -> Optional[float]:
    """When a token says that it expires, in Unix seconds. It is not verified here."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        exp = claims["exp"]
    except (ValueError, KeyError, TypeError):
        return None
    return float(exp) if isinstance(exp, (int, float)) and not isinstance(exp, bool) and 0 < exp < 1 << 40 else None


class Certificate(Credential):
    """A certificate in a folder with ``cert.pem``, ``key.pem`` and ``ca.pem``, as
    ``aibridge cert issue`` and :func:`enrol` write it. It is renewed when two
    thirds of its time are over, with a new key, which needs the package
    cryptography."""

    def __init__(self, folder: PathLike) -> None:
        self.folder = Path(folder)
        self._tried = 0.0
        settle(self.folder)

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def prepare(self, context: ssl.SSLContext) -> None:
        settle(self.folder)
        context.load_cert_chain(self.folder / "cert.pem", self.folder / "key.pem")

    def due(self) -> Optional[float]:
        begins, ends = lifetime((self.folder / "cert.pem").read_text("ascii"))
        at = begins + (ends - begins) * 2 / 3
        return max(at - time.time(), self._tried - time.monotonic(), 0.0)

    def renew(self, client: "Client") -> bool:
        from . import _certificate

        _, ends = lifetime((self.folder / "cert.pem").read_text("ascii"))
        self._tried = time.monotonic() + min(60 * RETRY, max((ends - time.time()) / 4, RETRY))
        key = _certificate.pending_key(self.folder)
        issued = client.call("cert.renew", {"csr": _certificate.signing_request(key)}, timeout=30, retry=False)
        install(self.folder, issued)
        return True


class KeyPair(Credential):
    """A certificate and its key in two files, which somebody else renews: they are read
    for every connection."""

    def __init__(self, certificate: PathLike, key: PathLike) -> None:
        self._certificate = certificate
        self._key = key

    def prepare(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self._certificate, self._key)


def enrol(folder: PathLike, url: str, token: str, *, ca: Optional[PathLike] = None) -> Certificate:
    """Get a certificate for a claim token (``aibridge cert token``) from the HTTP
    door at url, unless the folder has one already. The key is made here."""
    from . import _certificate

    place = Path(folder)
    if not (place / "cert.pem").exists():
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = _certificate.pending_key(place)
        body = {"token": token, "csr": _certificate.signing_request(key)}
        install(place, _certificate.post(url.rstrip("/") + "/pki/enroll", body, ca))
    return Certificate(place)


# A new key and certificate replace the old ones by two renames. What a crash
# leaves in between is settled before the next use: the certificate is written
# last, so that a new one means that the new key is to be used.


def install(folder: Path, issued: Mapping[str, object]) -> None:
    """Put an issued certificate, and the key it was asked for with, in place."""
    chain = issued.get("chain")
    if not isinstance(chain, list) or len(chain) < 2:
        raise errors.Internal("the bridge answered without a certificate: it may have to be approved first")
    write(folder / "ca.pem", str(chain[-1]))
    write(folder / "cert.pem.new", "".join(map(str, chain[:-1])))
    settle(folder)


def settle(folder: Path) -> None:
    if (folder / "cert.pem.new").exists():
        if (folder / "key.pem.new").exists():
            os.replace(folder / "key.pem.new", folder / "key.pem")
        os.replace(folder / "cert.pem.new", folder / "cert.pem")


def write(path: Path, text: str) -> None:
    """Write a file as a whole, for its owner's eyes only."""
    beside = path.with_name(path.name + ".part")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.replace(beside, path)


def lifetime(pem: str) -> "tuple[float, float]":
    """The begin and the end of the first certificate of a PEM text, in Unix seconds."""
    der = ssl.PEM_cert_to_DER_cert(pem[: pem.index("-----END CERTIFICATE-----")] + "-----END CERTIFICATE-----\n")
    # Validity is the first SEQUENCE of two times; the reader of DER is small enough to be here.
    times = [_time(der, i) for i in range(len(der) - 15) if der[i] in (0x17, 0x18)]
    found = [t for t in times if t is not None]
    if len(found) < 2:
        raise errors.Internal("the certificate has no validity")
    return found[0], found[1]


def _time(der: bytes, at: int) -> Optional[float]:
    """A UTCTime (0x17) or GeneralizedTime (0x18) at a place, None for others."""
    import calendar

    length = der[at + 1]
    if length != (13 if der[at] == 0x17 else 15):
        return None
    text = der[at + 2 : at + 2 + length]
    if not text[:-1].isdigit() or text[-1:] != b"Z":
        return None
    layout = "%y%m%d%H%M%SZ" if der[at] == 0x17 else "%Y%m%d%H%M%SZ"
    return float(calendar.timegm(time.strptime(text.decode(), layout)))


def from_environment(environ: Mapping[str, str]) -> Credential:
    """What AIBRIDGE_API_KEY, AIBRIDGE_TOKEN, AIBRIDGE_TOKEN_FILE, AIBRIDGE_CERT_FOLDER, or
    AIBRIDGE_CERT with AIBRIDGE_KEY name."""
    if environ.get("AIBRIDGE_API_KEY"):
        return Key(environ["AIBRIDGE_API_KEY"])
    if environ.get("AIBRIDGE_TOKEN_FILE"):
        return Token(environ["AIBRIDGE_TOKEN_FILE"])
    if environ.get("AIBRIDGE_TOKEN"):
        token = environ["AIBRIDGE_TOKEN"]
        return Token(lambda: token)
    if environ.get("AIBRIDGE_CERT_FOLDER"):
        return Certificate(environ["AIBRIDGE_CERT_FOLDER"])
    if environ.get("AIBRIDGE_CERT") and environ.get("AIBRIDGE_KEY"):
        return KeyPair(environ["AIBRIDGE_CERT"], environ["AIBRIDGE_KEY"])
    return Credential()
