/** Places for calls. One caller has at most a quarter of them; administrators, who are
 * not told apart, half. */
export declare class Places {
    #private;
    constructor(most: number);
    /** Take a place; the result gives it back. Undefined if there is none. */
    take(caller: string): (() => void) | undefined;
}
