"""AI Bridge in Python: serve skills, call commands, take part in channels.

    from aibridge import Agent

    agent = Agent("co2-bedroom")

    @agent.capability(effect="read")
    def read() -> float:
        "The CO2 in the bedroom, in ppm."
        return sensor.co2

    agent.run()

Reference and how-to: docs/sdk.md.
"""

from ._mqtt import Message
from .agent import Agent
from .capability import Capability, Skill
from .client import Client
from .credentials import Certificate, Credential, Key, KeyPair, Password, Token, enrol
from .errors import (
    AgentOffline,
    AlreadyExists,
    BatchInvalid,
    BridgeError,
    BudgetSpent,
    Busy,
    Cancelled,
    CertificateExpired,
    CertificateRequired,
    CertificateRevoked,
    CertificateUnknown,
    CredentialInvalid,
    FileNotFound,
    IDReused,
    Internal,
    InvalidParameter,
    InvalidState,
    LLMRefused,
    LLMUnavailable,
    LimitReached,
    MalformedEnvelope,
    NoSpace,
    NotAuthenticated,
    NotFound,
    OutcomeUnknown,
    OutsideScope,
    PayloadTooLarge,
    PermissionDenied,
    ProofFailed,
    RateLimited,
    Rejected,
    RequestExpired,
    Retry,
    RevisionConflict,
    ShuttingDown,
    StoreUnavailable,
    SyncFailed,
    TargetUnavailable,
    TimedOut,
    UnknownCommand,
    UnsupportedVersion,
    VFSPermission,
    VFSUnavailable,
)
from .groups import Approvals, Channel, Group
from .invocation import Invocation, current
from .schema import Length, Pattern, Range
from .subscription import Subscription

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentOffline",
    "AlreadyExists",
    "Approvals",
    "BatchInvalid",
    "BridgeError",
    "BudgetSpent",
    "Busy",
    "Cancelled",
    "Capability",
    "Certificate",
    "CertificateExpired",
    "CertificateRequired",
    "CertificateRevoked",
    "CertificateUnknown",
    "Channel",
    "Client",
    "Credential",
    "CredentialInvalid",
    "FileNotFound",
    "Group",
    "IDReused",
    "Internal",
    "InvalidParameter",
    "InvalidState",
    "Invocation",
    "Key",
    "KeyPair",
    "LLMRefused",
    "LLMUnavailable",
    "Length",
    "LimitReached",
    "MalformedEnvelope",
    "Message",
    "NoSpace",
    "NotAuthenticated",
    "NotFound",
    "OutcomeUnknown",
    "OutsideScope",
    "Password",
    "Pattern",
    "PayloadTooLarge",
    "PermissionDenied",
    "ProofFailed",
    "Range",
    "RateLimited",
    "Rejected",
    "RequestExpired",
    "Retry",
    "RevisionConflict",
    "ShuttingDown",
    "Skill",
    "StoreUnavailable",
    "Subscription",
    "SyncFailed",
    "TargetUnavailable",
    "TimedOut",
    "Token",
    "UnknownCommand",
    "UnsupportedVersion",
    "VFSPermission",
    "VFSUnavailable",
    "current",
    "enrol",
]
