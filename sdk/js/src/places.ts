// How many calls an agent runs at a time.

/** Places for calls. One caller has at most a quarter of them; administrators, who are
 * not told apart, half. */
export class Places {
  #most: number;
  #taken = 0;
  #byCaller = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Take a place; the result gives it back. Undefined if there is none. */
  take(caller: string): (() => void) | undefined {
    const share = this.#most >= 8 ? Math.floor(this.#most / (caller ? 4 : 2)) : this.#most;
    const own = this.#byCaller.get(caller) ?? 0;
    if (this.#taken >= this.#most || own >= share) return undefined;
    this.#taken++;
    this.#byCaller.set(caller, own + 1);
    return () => this.#leave(caller);
  }

  #leave(caller: string): void {
    this.#taken--;
    const own = this.#byCaller.get(caller)! - 1;
    if (own > 0) this.#byCaller.set(caller, own);
    else this.#byCaller.delete(caller);
  }
}
