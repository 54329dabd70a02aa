// Errors of the protocol: a code of four digits, a message, details.

/** Whether sending the same request again, with the same id, is of use. */
export type Retry = "never" | "after retry_after_ms" | "with backoff";

export type Details = Record<string, unknown>;

/**
 * A failure with a code. Throw one in a handler, and the caller gets it as it is. Every
 * code has a class of its own; the base class takes any. docs/protocol.md#codes is the
 * list.
 */
export class BridgeError extends Error {
  constructor(
    message: string,
    /** JSON that says more. */
    readonly details: Details = {},
    /** Four digits. */
    readonly code: string = "5000",
    readonly retry: Retry = "never",
  ) {
    super(message);
    this.name = new.target.name;
  }

  /** The milliseconds to wait before trying again, undefined if the bridge named none. */
  get retryAfter(): number | undefined {
    const ms = this.details["retry_after_ms"];
    return typeof ms === "number" && ms > 0 ? ms : undefined;
  }

  /** The error as an envelope has it. */
  toWire(): { code: string; message: string; details: Details } {
    return { code: this.code, message: this.message, details: this.details };
  }

  /** The error that an envelope has, as its class. Old forms are understood. */
  static fromWire(error: unknown): BridgeError {
    if (typeof error !== "object" || error === null) return new Internal(String(error));
    const { code, message, details } = error as Details;
    const fields = typeof details === "object" && details !== null ? (details as Details) : {};
    const text = typeof message === "string" ? message : "";
    const known = errorClasses[String(code ?? "5000")];
    return known ? new known(text, fields) : new BridgeError(text, fields, String(code));
  }
}

type ErrorClass = new (message: string, details?: Details) => BridgeError;

export class MalformedEnvelope extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "1000");
  }
}

/** A parameter does not fit: details has param_name and reason. */
export class InvalidParameter extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "1001");
  }

  /** The error for the parameter at a path, such as params.celsius. */
  static at(path: string, reason: string): InvalidParameter {
    return new InvalidParameter(`${path}: ${reason}`, { param_name: path, reason });
  }
}

export class UnknownCommand extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "1002");
  }
}

export class UnsupportedVersion extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "1003");
  }
}

export class PayloadTooLarge extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "1004");
  }
}

export class IDReused extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "1005");
  }
}

export class RequestExpired extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "1006");
  }
}

export class BatchInvalid extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "1007");
  }
}

export class NotAuthenticated extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "2001");
  }
}

export class CredentialInvalid extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "2002");
  }
}

export class PermissionDenied extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "2003");
  }
}

export class CertificateRequired extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "2004");
  }
}

export class CertificateUnknown extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "2005");
  }
}

export class CertificateExpired extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "2006");
  }
}

export class CertificateRevoked extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "2007");
  }
}

export class OutsideScope extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "2008");
  }
}

export class ProofFailed extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "2009");
  }
}

export class NotFound extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "3001");
  }
}

export class AlreadyExists extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "3002");
  }
}

export class RevisionConflict extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "3003");
  }
}

export class LimitReached extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "3004");
  }
}

export class AgentOffline extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "3005");
  }
}

export class InvalidState extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "3006");
  }
}

export class VFSUnavailable extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4001", "with backoff");
  }
}

export class SyncFailed extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4002");
  }
}

export class FileMissing extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4003");
  }
}

export class VFSPermission extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4004");
  }
}

export class NoSpace extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4005");
  }
}

export class TargetUnavailable extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4006", "with backoff");
  }
}

export class TimedOut extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4007");
  }
}

export class Busy extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4008", "after retry_after_ms");
  }
}

export class RateLimited extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4009", "after retry_after_ms");
  }
}

export class LLMUnavailable extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4010", "with backoff");
  }
}

export class LLMRefused extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4011");
  }
}

/** The command may or may not have happened. */
export class OutcomeUnknown extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4012");
  }
}

export class Cancelled extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4013");
  }
}

export class BudgetSpent extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "4014");
  }
}

export class Internal extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "5000");
  }
}

export class StoreUnavailable extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "5001", "with backoff");
  }
}

export class ShuttingDown extends BridgeError {
  constructor(message: string, details: Details = {}) {
    super(message, details, "5002", "with backoff");
  }
}

/** Throw it in a handler to decline a call before anything has happened; the bridge may
 * then ask another agent. */
export class Rejected extends Error {
  constructor(readonly reason: string) {
    super(reason);
    this.name = "Rejected";
  }
}

/** The class of each code. */
export const errorClasses: Readonly<Record<string, ErrorClass>> = {
  "1000": MalformedEnvelope,
  "1001": InvalidParameter,
  "1002": UnknownCommand,
  "1003": UnsupportedVersion,
  "1004": PayloadTooLarge,
  "1005": IDReused,
  "1006": RequestExpired,
  "1007": BatchInvalid,
  "2001": NotAuthenticated,
  "2002": CredentialInvalid,
  "2003": PermissionDenied,
  "2004": CertificateRequired,
  "2005": CertificateUnknown,
  "2006": CertificateExpired,
  "2007": CertificateRevoked,
  "2008": OutsideScope,
  "2009": ProofFailed,
  "3001": NotFound,
  "3002": AlreadyExists,
  "3003": RevisionConflict,
  "3004": LimitReached,
  "3005": AgentOffline,
  "3006": InvalidState,
  "4001": VFSUnavailable,
  "4002": SyncFailed,
  "4003": FileMissing,
  "4004": VFSPermission,
  "4005": NoSpace,
  "4006": TargetUnavailable,
  "4007": TimedOut,
  "4008": Busy,
  "4009": RateLimited,
  "4010": LLMUnavailable,
  "4011": LLMRefused,
  "4012": OutcomeUnknown,
  "4013": Cancelled,
  "4014": BudgetSpent,
  "5000": Internal,
  "5001": StoreUnavailable,
  "5002": ShuttingDown,
};
