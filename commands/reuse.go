package commands

import (
	"encoding/json"
	"sync"
	"unsafe"

	"github.com/aibridge/aibridge/internal/prefetch"
)

// Calls with a plan are used again: such a call with all its parts takes some two
// kilobytes, which would double the work of the garbage collector. A call is used
// again when it has ended in the usual way and nothing refers to it any more; every
// other one is garbage.
//
// A reader that takes a call out of a list of calls, or gets one that may end
// meanwhile, holds it ([Call.Hold]). Lists are left before the handler's own hold
// ends, so that calls in a list can be held.
var calls = sync.Pool{New: func() any { return new(Call) }}

// A spare is the part of a call that is reused by the next one.
type spare struct {
	claimed func(error) // the methods of these names
	finish  func(json.RawMessage, error)
	params  []byte // room for those of the request
	room    Room
}

// maxSpareParams is the largest room for params that is kept, in bytes.
const maxSpareParams = 16 << 10

// A Room is the working memory of a [Prepared] for a call. It is used again with the
// call.
type Room interface {
	// Empty clears the room.
	Empty()
}

// Room is the room that [Call.Leave] left of an earlier call, nil if there is none.
func (c *Call) Room() Room { return c.spare.room }

// Leave promises that the caller does not use the call once done has returned, nor
// does any reader that does not hold it. It is called before done, which has no
// error then.
func (c *Call) Leave(room Room) { c.again, c.spare.room = true, room }

// Approach has the processor fetch a call that is about to go on. A call whose agent was
// asked milliseconds ago is in no cache near it any more.
func (c *Call) Approach() { prefetch.Lines(uintptr(unsafe.Pointer(c)), unsafe.Sizeof(*c)) }

// Hold keeps the call from being used again until Release. It is for readers that may
// look at the call after its end, and is called before that end.
func (c *Call) Hold() { c.holds.Add(1) }

// Release ends a Hold.
func (c *Call) Release() {
	if c.holds.Add(-1) != 0 || !c.again || c.postponed || c.unwatch != nil || c.own.isFollowed() {
		return
	}
	keep, free := c.spare, c.free
	if keep.room != nil {
		keep.room.Empty()
	}
	if cap(keep.params) > maxSpareParams {
		keep.params = nil
	}
	*c = Call{} // in place, where a literal with a field would be made elsewhere and copied
	c.spare = keep
	calls.Put(c)
	if free != nil {
		free()
	}
}
