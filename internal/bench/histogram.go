package bench

import (
	"math/bits"
	"time"
)

// A histogram counts durations in buckets that are at most 1/64 of their value
// wide, from a nanosecond to days, without allocating.
type histogram struct {
	counts [64 * 48]uint64
	total  uint64
}

// bucketOf is the bucket of n nanoseconds: exact below 128, then 64 buckets
// for each power of two.
func bucketOf(n uint64) int {
	if n < 128 {
		return int(n)
	}
	shift := bits.Len64(n) - 7
	return 64*shift + int(n>>shift)
}

// boundOf is the least value beyond the bucket.
func boundOf(bucket int) uint64 {
	if bucket < 128 {
		return uint64(bucket) + 1
	}
	shift := bucket/64 - 1
	return uint64(bucket-64*shift+1) << shift
}

func (h *histogram) add(nanoseconds int64) {
	b := bucketOf(uint64(max(nanoseconds, 0)))
	h.counts[min(b, len(h.counts)-1)]++
	h.total++
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
}

// quantile is a duration that the given part of all is not longer than, 0
// without any.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := uint64(q*float64(h.total-1)) + 1
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return time.Duration(boundOf(i) - 1)
		}
	}
	return 0
}
