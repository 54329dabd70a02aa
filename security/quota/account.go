package quota

import (
	"sync/atomic"
	"time"
)

// window is the part of a rate that may be used at once, as a time.
const window = int64(time.Second)

// A bucket holds a rate by the time at which all that was taken is paid for
// (the generic cell rate algorithm): one word, no lock.
type bucket struct{ paid atomic.Int64 } // nanoseconds on the keeper's clock

// take takes n if anything is left, however large n is: the excess is paid for by a
// longer wait afterwards. Otherwise it returns the time to wait.
func (b *bucket) take(now int64, n, rate int) (wait time.Duration, ok bool) {
	if rate <= 0 {
		return 0, true
	}
	cost, one := costOf(n, rate), costOf(1, rate)
	for {
		paid := b.paid.Load()
		from := max(paid, now)
		if early := from - now + one - window; early > 0 {
			return time.Duration(early), false
		}
		if b.paid.CompareAndSwap(paid, from+cost) {
			return 0, true
		}
	}
}

// wait is the time that there is nothing to take.
func (b *bucket) wait(now int64, rate int) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(max(0, max(b.paid.Load(), now)-now+costOf(1, rate)-window))
}

// giveBack undoes a take.
func (b *bucket) giveBack(n, rate int) {
	if rate > 0 {
		b.paid.Add(-costOf(n, rate))
	}
}

// longest bounds the cost of one message, as time of its account: no sender waits longer.
const longest = int64(10 * time.Minute)

func costOf(n, rate int) int64 {
	return min(int64(float64(n)/float64(rate)*float64(time.Second)), longest)
}

// An account counts the use of one party.
type account struct {
	requests, refusals, messages, bytes bucket
	connections                         int64 // under the shard's lock

	elsewhere *elsewhere // nil on a bridge that works alone
}

// idle reports whether nothing would change if the account were forgotten.
func (a *account) idle(now int64) bool {
	return a.connections == 0 && a.requests.paid.Load() <= now && a.refusals.paid.Load() <= now && a.messages.paid.Load() <= now && a.bytes.paid.Load() <= now
}
