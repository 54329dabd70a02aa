"""Keys and signing requests, by the package cryptography, and enrolment over HTTP."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from . import errors
from .credentials import PathLike, write

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
except ImportError as e:  # pragma: no cover
    raise ImportError("certificates need the package cryptography: pip install 'aibridge[certificates]'") from e

MAX_ANSWER = 1 << 20


def pending_key(folder: Path) -> Any:
    """The key that the next certificate is asked for with. It is kept before it is
    used: a request that is made again with the same key gets the same certificate."""
    path = folder / "key.pem.new"
    if path.exists():
        return serialization.load_pem_private_key(path.read_bytes(), password=None)
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write(path, pem.decode("ascii"))
    return key


def signing_request(key: Any) -> str:
    """A request to sign the key. It names nobody: the bridge knows who asks."""
    csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    return str(csr.public_bytes(serialization.Encoding.PEM).decode("ascii"))


def post(url: str, body: Mapping[str, Any], ca: Optional[PathLike]) -> Dict[str, Any]:
    """POST an object and read the one that is answered."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    context = ssl.create_default_context(cafile=str(ca) if ca else None) if url.startswith("https:") else None
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return _object(answer.read(MAX_ANSWER))
    except urllib.error.HTTPError as e:
        refusal = _object(e.read(MAX_ANSWER)).get("error")
        raise errors.BridgeError.from_wire(refusal or f"{url} answers {e.code}") from None
    except OSError as e:
        raise errors.TargetUnavailable(f"{url} cannot be reached: {e}") from e


def _object(body: bytes) -> Dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}
