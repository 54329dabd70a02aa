package commands

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// A fingerprinter recognises repeated requests by their command and the bytes of
// their params (docs/protocol.md#request). Fingerprints of one fingerprinter are
// comparable; other processes cannot compare them, but they can compare claims.
type fingerprinter struct {
	seed     maphash.Seed
	digester Digester
	key      [keyMark]byte // identifies the key of the digests
}

// The hash of a claim consists of the digest of params, a mark of the command, and
// a mark of the digester's key.
const (
	commandMark = 12
	keyMark     = 4
)

func newFingerprinter(d Digester) fingerprinter {
	if d == nil {
		d = newPassingDigester()
	}
	f := fingerprinter{seed: maphash.MakeSeed(), digester: d}
	of := d.Digest([]byte("the key of claims"))
	copy(f.key[:], of[:])
	return f
}

// of is the fingerprint of a command with params that have a digest.
func (f fingerprinter) of(command string, d Digest) uint64 {
	return mix(maphash.String(f.seed, command), binary.LittleEndian.Uint64(d[:]))
}

// claim identifies a request to a later process.
func (f fingerprinter) claim(command *Command, d Digest) (hash [sha256.Size]byte) {
	copy(hash[:], d[:])
	copy(hash[len(d):], command.mark[:])
	copy(hash[len(d)+commandMark:], f.key[:])
	return hash
}

// comparable reports whether a claim was made with the key of this process. A claim
// of an earlier version, or of a bridge with another key, cannot be compared with
// params.
func (f fingerprinter) comparable(claim [sha256.Size]byte) bool {
	return [keyMark]byte(claim[sha256.Size-keyMark:]) == f.key
}

// markCommand is the name of a command in claims.
func markCommand(name string) (mark [commandMark]byte) {
	sum := sha256.Sum256([]byte(name))
	copy(mark[:], sum[:])
	return mark
}

// mix makes one hash of two, in their order.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	return hi ^ lo
}
