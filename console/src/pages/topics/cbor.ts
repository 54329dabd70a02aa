// CBOR (RFC 8949) to and from what JSON can say, and byte strings.

/** Reads one value that is all of the bytes; throws if it is not CBOR. */
export function decodeCBOR(bytes: Uint8Array): unknown {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const need = (n: number) => {
    if (n > bytes.length - at) throw new Error("it ends too soon");
    at += n;
    return at - n;
  };
  const argument = (info: number): number => {
    if (info < 24) return info;
    if (info === 24) return view.getUint8(need(1));
    if (info === 25) return view.getUint16(need(2));
    if (info === 26) return view.getUint32(need(4));
    if (info === 27) return Number(view.getBigUint64(need(8)));
    throw new Error("it has a length that is none");
  };
  const ends = () => bytes[at] === 0xff && ++at > 0;
  const chunks = (text: boolean, depth: number): Uint8Array[] => {
    const parts: Uint8Array[] = [];
    while (!ends()) {
      const part = read(depth + 1);
      parts.push(text ? new TextEncoder().encode(String(part)) : (part as Uint8Array));
    }
    return parts;
  };
  function read(depth: number): unknown {
    if (depth > 64) throw new Error("it is too deep");
    const first = view.getUint8(need(1));
    const major = first >> 5, info = first & 31, open = info === 31;
    switch (major) {
      case 0:
        return argument(info);
      case 1:
        return -1 - argument(info);
      case 2:
      case 3: {
        const n = open ? 0 : argument(info);
        const raw = open ? joined(chunks(major === 3, depth)) : bytes.slice(need(n), at);
        return major === 2 ? raw : new TextDecoder("utf-8", { fatal: true }).decode(raw);
      }
      case 4: {
        const list: unknown[] = [];
        for (let n = open ? Infinity : argument(info); n > 0 && !(open && ends()); n--) list.push(read(depth + 1));
        return list;
      }
      case 5: {
        const entries: [string, unknown][] = [];
        for (let n = open ? Infinity : argument(info); n > 0 && !(open && ends()); n--) {
          const key = read(depth + 1);
          entries.push([typeof key === "string" ? key : JSON.stringify(shown(key)), read(depth + 1)]);
        }
        return Object.fromEntries(entries);
      }
      case 6:
        argument(info);
        return read(depth + 1); // what the tag says of it is left out
    }
    if (info === 20 || info === 21) return info === 21;
    if (info === 22 || info === 23) return null;
    if (info === 25) return half(view.getUint16(need(2)));
    if (info === 26) return view.getFloat32(need(4));
    if (info === 27) return view.getFloat64(need(8));
    throw new Error("it has a simple value that is none");
  }
  const value = read(0);
  if (at !== bytes.length) throw new Error("something follows it");
  return value;
}

/** A value as JSON shows it: bytes as hexadecimal. */
export function shown(v: unknown): unknown {
  if (v instanceof Uint8Array) return `h'${hex(v)}'`;
  if (Array.isArray(v)) return v.map(shown);
  if (v && typeof v === "object") return Object.fromEntries(Object.entries(v).map(([k, x]) => [k, shown(x)]));
  return v;
}

export const hex = (bytes: Uint8Array) => [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");

function half(bits: number) {
  const exponent = (bits >> 10) & 31, part = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 0) return sign * part * 2 ** -24;
  if (exponent === 31) return part ? NaN : sign * Infinity;
  return sign * (1 + part / 1024) * 2 ** (exponent - 15);
}

function joined(parts: Uint8Array[]) {
  const whole = new Uint8Array(parts.reduce((sum, p) => sum + p.length, 0));
  let at = 0;
  for (const p of parts) whole.set(p, at), (at += p.length);
  return whole;
}

/** Writes what JSON can say. */
export function encodeCBOR(value: unknown): Uint8Array {
  const parts: Uint8Array[] = [];
  const head = (major: number, n: number) => {
    const size = n < 24 ? 0 : n < 256 ? 1 : n < 65536 ? 2 : n < 2 ** 32 ? 4 : 8;
    const out = new Uint8Array(1 + size), view = new DataView(out.buffer);
    out[0] = (major << 5) | (size === 0 ? n : 24 + Math.log2(size));
    if (size === 1) view.setUint8(1, n);
    if (size === 2) view.setUint16(1, n);
    if (size === 4) view.setUint32(1, n);
    if (size === 8) view.setBigUint64(1, BigInt(n));
    parts.push(out);
  };
  const write = (v: unknown): void => {
    if (v === null || v === undefined) return void parts.push(Uint8Array.of(0xf6));
    if (typeof v === "boolean") return void parts.push(Uint8Array.of(v ? 0xf5 : 0xf4));
    if (typeof v === "number") {
      if (Number.isSafeInteger(v)) return v < 0 ? head(1, -1 - v) : head(0, v);
      const out = new Uint8Array(9);
      out[0] = 0xfb;
      new DataView(out.buffer).setFloat64(1, v);
      return void parts.push(out);
    }
    if (typeof v === "string") {
      const text = new TextEncoder().encode(v);
      head(3, text.length);
      return void parts.push(text);
    }
    if (Array.isArray(v)) return head(4, v.length), v.forEach(write);
    const entries = Object.entries(v as object);
    head(5, entries.length);
    for (const [k, x] of entries) write(k), write(x);
  };
  write(value);
  return joined(parts);
}
