/** Whether sending the same request again, with the same id, is of use. */
export type Retry = "never" | "after retry_after_ms" | "with backoff";
export type Details = Record<string, unknown>;
/**
 * A failure with a code. Throw one in a handler, and the caller gets it as it is. Every
 * code has a class of its own; the base class takes any. docs/protocol.md#codes is the
 * list.
 */
export declare class BridgeError extends Error {
    /** JSON that says more. */
    readonly details: Details;
    /** Four digits. */
    readonly code: string;
    readonly retry: Retry;
    constructor(message: string, 
    /** JSON that says more. */
    details?: Details, 
    /** Four digits. */
    code?: string, retry?: Retry);
    /** The milliseconds to wait before trying again, undefined if the bridge named none. */
    get retryAfter(): number | undefined;
    /** The error as an envelope has it. */
    toWire(): {
        code: string;
        message: string;
        details: Details;
    };
    /** The error that an envelope has, as its class. Old forms are understood. */
    static fromWire(error: unknown): BridgeError;
}
type ErrorClass = new (message: string, details?: Details) => BridgeError;
export declare class MalformedEnvelope extends BridgeError {
    constructor(message: string, details?: Details);
}
/** A parameter does not fit: details has param_name and reason. */
export declare class InvalidParameter extends BridgeError {
    constructor(message: string, details?: Details);
    /** The error for the parameter at a path, such as params.celsius. */
    static at(path: string, reason: string): InvalidParameter;
}
export declare class UnknownCommand extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class UnsupportedVersion extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class PayloadTooLarge extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class IDReused extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class RequestExpired extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class BatchInvalid extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class NotAuthenticated extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class CredentialInvalid extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class PermissionDenied extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class CertificateRequired extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class CertificateUnknown extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class CertificateExpired extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class CertificateRevoked extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class OutsideScope extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class ProofFailed extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class NotFound extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class AlreadyExists extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class RevisionConflict extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class LimitReached extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class AgentOffline extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class InvalidState extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class VFSUnavailable extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class SyncFailed extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class FileMissing extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class VFSPermission extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class NoSpace extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class TargetUnavailable extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class TimedOut extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class Busy extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class RateLimited extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class LLMUnavailable extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class LLMRefused extends BridgeError {
    constructor(message: string, details?: Details);
}
/** The command may or may not have happened. */
export declare class OutcomeUnknown extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class Cancelled extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class BudgetSpent extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class Internal extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class StoreUnavailable extends BridgeError {
    constructor(message: string, details?: Details);
}
export declare class ShuttingDown extends BridgeError {
    constructor(message: string, details?: Details);
}
/** Throw it in a handler to decline a call before anything has happened; the bridge may
 * then ask another agent. */
export declare class Rejected extends Error {
    readonly reason: string;
    constructor(reason: string);
}
/** The class of each code. */
export declare const errorClasses: Readonly<Record<string, ErrorClass>>;
export {};
