package routes

import (
	"encoding/binary"
	"math/bits"

	"github.com/minio/highwayhash"

	"github.com/aibridge/aibridge/protocol"
)

// A Key is the secret under which all bridges of a cluster hash filters. Clients do not
// know it, and so cannot construct topics whose hashes collide.
type Key [32]byte

// EverySpace stands for all spaces in the subscriptions of principals that receive
// messages of every space.
const EverySpace protocol.SpaceID = ""

// longestStack is the longest text of a space and a filter that is hashed
// without memory of its own, in bytes.
const longestStack = 256

// filter hashes a filter of a space.
func (k *Key) filter(space protocol.SpaceID, filter string) uint64 {
	var buffer [longestStack]byte
	text := append(append(append(buffer[:0], space...), 0), filter...) // NUL is in neither
	return highwayhash.Sum64(text, k[:])
}

// group hashes a group of shared subscriptions. Groups of two filters, or of
// two spaces, share nothing but their names.
func (k *Key) group(space protocol.SpaceID, name, filter string) uint64 {
	var buffer [longestStack]byte
	text := append(append(append(buffer[:0], space...), 0), name...)
	text = append(append(text, 0), filter...)
	return max(highwayhash.Sum64(text, k[:]), 1) // 0 is no group
}

// sum is the share of an entry in the sum of all that a bridge announces.
func (k *Key) sum(e *entry, weight uint32) uint64 {
	h := e.literal
	if e.filter != "" {
		h = k.filter(e.space, e.filter)
	}
	if e.group != 0 {
		var b [24]byte
		binary.LittleEndian.PutUint64(b[:], h)
		binary.LittleEndian.PutUint64(b[8:], e.group)
		binary.LittleEndian.PutUint64(b[16:], uint64(weight))
		return highwayhash.Sum64(b[:], k[:])
	}
	return sumOfLiteral(h)
}

// sumOfLiteral spreads the hash of a filter over all bits, so that sums of few
// entries are as unlikely to be alike as those of many.
func sumOfLiteral(hash uint64) uint64 {
	high, low := bits.Mul64(hash^0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
	return high ^ low
}
