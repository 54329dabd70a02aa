export declare const VERSION = "0.6.3";
export declare const MAX_BYTES: number;
export type Fields = Record<string, unknown>;
/** An event about a call or a task. */
export interface BridgeEvent extends Fields {
    event: string;
    seq?: number;
    data?: Fields;
}
export declare const newID: () => string;
export declare const isObject: (v: unknown) => v is Fields;
/** The bytes of a text in UTF-8. */
export declare const bytesOf: (text: string) => Uint8Array;
export declare const sizeOf: (text: string) => number;
/** The envelope in a payload, undefined if there is none. */
export declare function decode(payload: Uint8Array): Fields | undefined;
export declare function request(command: string, params: unknown, metadata: Fields, id: string): string;
/** Whom an answer is from and what it answers. */
export interface Origin {
    id: string;
    sender: string;
    trace: string | undefined;
}
export declare function response(origin: Origin, result: unknown, error?: unknown): string;
export declare function event(origin: Origin, name: string, seq: number, data: Fields): string;
