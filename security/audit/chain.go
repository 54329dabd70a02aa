package audit

import (
	"context"

	"github.com/aibridge/aibridge/internal/evidence"
)

// A Chain is the trail of one bridge, to be read.
type Chain struct {
	Bridge string
	Log    Log    // nil if it is not there any more
	Key    *Key   // nil if it is not stored
	Birth  *Birth // nil if none was recorded
	Live   bool   // the bridge is there, and goes on with it
}

// Others are the trails of the other bridges that share a state.
type Others interface {
	// Settle has the bridges that live store what they have recorded. It returns the
	// ends of their chains by bridge, and the bridges that did not answer in time.
	Settle(ctx context.Context) (heads map[string]Head, silent []string)
	// Chains are the trails, also of bridges that are not there any more.
	Chains(ctx context.Context) ([]Chain, error)
}

// An indexed log knows where entries are without reading it.
type indexed interface {
	// BySeq is the first block whose last entry is not before a sequence.
	BySeq(seq uint64) uint64
	// Finder passes over blocks in which no entry has all of some texts.
	Finder(texts ...string) *evidence.Finder
}

// search returns the number of the first block of a log with a condition, which
// those behind it have as well; one behind the last if none does. Blocks that cannot
// be read count as those before them.
func search(ctx context.Context, log Log, b Bounds, cond func(*block) bool) (uint64, error) {
	low, high := b.First, b.Last+1
	for low < high {
		mid := low + (high-low)/2
		read, err := readable(ctx, log, mid, high)
		if err != nil {
			return 0, err
		}
		if read == nil || cond(read) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low, nil
}

// readable is the first block with groups from a number on, nil if there is none
// before the end.
func readable(ctx context.Context, log Log, from, end uint64) (*block, error) {
	for at := from; at < end; at++ {
		data, err := log.Get(ctx, at)
		if err != nil {
			return nil, err
		}
		if b := decodeBlock(data); len(b.groups) > 0 {
			return &b, nil
		}
	}
	return nil, nil
}

// lastGroup is the last group of a log that can be read, nil if there is none.
func lastGroup(ctx context.Context, log Log) (*group, error) {
	bounds, err := log.Bounds(ctx)
	if err != nil {
		return nil, err
	}
	for at := bounds.Last; at >= bounds.First && at > 0; at-- {
		data, err := log.Get(ctx, at)
		if err != nil {
			return nil, err
		}
		b := decodeBlock(data)
		if n := len(b.groups); n > 0 {
			return b.groups[n-1], nil
		}
	}
	return nil, nil
}
