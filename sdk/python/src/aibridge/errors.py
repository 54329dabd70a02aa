"""Errors of the protocol: a code of four digits, a message, details.

Every code has a class of its own, so that ``except aibridge.NotFound`` says what
it means. ``docs/protocol.md#codes`` is the list; ``retry`` is its last column.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar, Dict, Mapping, Optional, Type


class Retry(enum.Enum):
    """Whether sending the same request again, with the same id, is of use."""

    NEVER = "never"
    AFTER = "after retry_after_ms"
    BACKOFF = "with backoff"


class BridgeError(Exception):
    """A failure with a code. Raise one in a handler, and the caller gets it as it is.

    ``code`` has four digits, ``details`` are JSON. A subclass has its code; the
    base class takes any.
    """

    code: str = "5000"
    retry: ClassVar[Retry] = Retry.NEVER

    def __init__(self, message: str, *, code: Optional[str] = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: Dict[str, Any] = details
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"

    @property
    def retry_after(self) -> Optional[float]:
        """The seconds to wait before trying again, None if the bridge named none."""
        ms = self.details.get("retry_after_ms")
        if isinstance(ms, bool) or not isinstance(ms, (int, float)) or ms <= 0:
            return None
        return float(ms) / 1000

    def to_wire(self) -> Dict[str, Any]:
        """The error as an envelope has it."""
        return {"code": self.code, "message": self.message, "details": self.details}

    @staticmethod
    def from_wire(error: Any) -> "BridgeError":
        """The error that an envelope has, as its class. Old forms are understood."""
        if not isinstance(error, Mapping):
            return Internal(str(error))
        code = str(error.get("code", "5000"))
        details = error.get("details")
        fields = {str(k): v for k, v in details.items()} if isinstance(details, Mapping) else {}
        known = BY_CODE.get(code, BridgeError)
        made = known.__new__(known)
        BridgeError.__init__(made, str(error.get("message", "")), code=code)
        made.details = fields
        return made


class MalformedEnvelope(BridgeError):
    code = "1000"


class InvalidParameter(BridgeError):
    """A parameter does not fit: ``details`` has ``param_name`` and ``reason``."""

    code = "1001"

    @classmethod
    def at(cls, path: str, reason: str) -> "InvalidParameter":
        """The error for the parameter at a path, such as ``params.celsius``."""
        return cls(f"{path}: {reason}", param_name=path, reason=reason)


class UnknownCommand(BridgeError):
    code = "1002"


class UnsupportedVersion(BridgeError):
    code = "1003"


class PayloadTooLarge(BridgeError):
    code = "1004"


class IDReused(BridgeError):
    code = "1005"


class RequestExpired(BridgeError):
    code = "1006"


class BatchInvalid(BridgeError):
    code = "1007"


class NotAuthenticated(BridgeError):
    code = "2001"


class CredentialInvalid(BridgeError):
    code = "2002"


class PermissionDenied(BridgeError):
    code = "2003"


class CertificateRequired(BridgeError):
    code = "2004"


class CertificateUnknown(BridgeError):
    code = "2005"


class CertificateExpired(BridgeError):
    code = "2006"


class CertificateRevoked(BridgeError):
    code = "2007"


class OutsideScope(BridgeError):
    code = "2008"


class ProofFailed(BridgeError):
    code = "2009"


class NotFound(BridgeError):
    code = "3001"


class AlreadyExists(BridgeError):
    code = "3002"


class RevisionConflict(BridgeError):
    code = "3003"


class LimitReached(BridgeError):
    code = "3004"


class AgentOffline(BridgeError):
    code = "3005"


class InvalidState(BridgeError):
    code = "3006"


class VFSUnavailable(BridgeError):
    code = "4001"
    retry = Retry.BACKOFF


class SyncFailed(BridgeError):
    code = "4002"


class FileNotFound(BridgeError):
    code = "4003"


class VFSPermission(BridgeError):
    code = "4004"


class NoSpace(BridgeError):
    code = "4005"


class TargetUnavailable(BridgeError):
    code = "4006"
    retry = Retry.BACKOFF


class TimedOut(BridgeError):
    code = "4007"


class Busy(BridgeError):
    code = "4008"
    retry = Retry.AFTER


class RateLimited(BridgeError):
    code = "4009"
    retry = Retry.AFTER


class LLMUnavailable(BridgeError):
    code = "4010"
    retry = Retry.BACKOFF


class LLMRefused(BridgeError):
    code = "4011"


class OutcomeUnknown(BridgeError):
    """The command may or may not have happened."""

    code = "4012"


class Cancelled(BridgeError):
    code = "4013"


class BudgetSpent(BridgeError):
    code = "4014"


class Internal(BridgeError):
    code = "5000"


class StoreUnavailable(BridgeError):
    code = "5001"
    retry = Retry.BACKOFF


class ShuttingDown(BridgeError):
    code = "5002"
    retry = Retry.BACKOFF


class Rejected(Exception):
    """Raise it in a handler to decline a call before anything has happened; the
    bridge may then ask another agent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


BY_CODE: Dict[str, Type[BridgeError]] = {c.code: c for c in BridgeError.__subclasses__()}
