package commands

import (
	"unsafe"

	"github.com/aibridge/aibridge/internal/prefetch"
)

// A record is one request that is finished, or runs. It has no pointers, see [ledger],
// and takes one line of the processor's caches.
type record struct {
	key     entryKey
	hash    uint64 // fingerprint of the request
	expires int64  // Unix milliseconds
	day     int64  // in the expiry; of a running one the place of its entry
	answer  answerAt

	newer, older slot // neighbours on that day
	holder       holder
	effect       Effect
	state        recordState
}

type recordState uint8

const (
	answered recordState = iota // unless its page was given up: then the answer is lost, too
	lost                        // the answer is no longer known
	running                     // it is not finished: the rest is in its entry
	claimed                     // an earlier process took it up, and its outcome is not known
)

// A slot is the number of a record in its table. The first is 1.
type slot int32

const noSlot slot = 0

// A recordTable keeps records in blocks, so that it neither moves them nor
// needs much memory at once as it grows.
type recordTable struct {
	blocks []*[recordBlock]record
	used   slot // slots that were ever taken
	free   slot // the first of those released, linked by older
}

const recordBlock = 1024

func (t *recordTable) at(s slot) *record {
	i := uint32(s - 1)
	return &t.blocks[i/recordBlock][i%recordBlock]
}

// approach has the processor fetch a record.
func (t *recordTable) approach(s slot) {
	if s != noSlot {
		prefetch.Line(uintptr(unsafe.Pointer(t.at(s))))
	}
}

func (t *recordTable) take() slot {
	if s := t.free; s != noSlot {
		t.free = t.at(s).older
		return s
	}
	if int(t.used) == len(t.blocks)*recordBlock {
		t.blocks = append(t.blocks, new([recordBlock]record))
	}
	t.used++
	return t.used
}

func (t *recordTable) release(s slot) {
	*t.at(s) = record{older: t.free, answer: noAnswer}
	t.free = s
}
