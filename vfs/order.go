package vfs

import (
	"slices"
	"strings"
)

// An order keeps strings sorted. Adding is cheap; added strings are sorted in when the
// order is next read.
type order struct {
	sorted []string
	added  []string
	gone   int // of those in sorted or added, how many are not wanted any more
}

func (o *order) add(s string) { o.added = append(o.added, s) }

// remove only counts: readers skip the strings that are gone.
func (o *order) remove() { o.gone++ }

// settle sorts in the added strings and, when many are gone, drops those for which there
// reports false.
func (o *order) settle(there func(string) bool) {
	if len(o.added) > 0 {
		slices.Sort(o.added)
		o.sorted = merge(o.sorted, o.added)
		o.added = nil
	}
	if o.gone > 1000 && o.gone > len(o.sorted)/2 {
		o.sorted = slices.DeleteFunc(o.sorted, func(s string) bool { return !there(s) })
		o.gone = 0
	}
}

// merge merges two sorted lists, without repeats.
func merge(a, b []string) []string {
	if len(a) == 0 {
		return slices.Compact(b)
	}
	out := make([]string, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0] <= b[0] {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return slices.Compact(append(append(out, a...), b...))
}

// from yields the strings with a prefix that come after a cursor, in order.
func (o *order) from(prefix, cursor string, yield func(string) bool) {
	start := prefix
	if cursor > start {
		start = cursor
	}
	i, found := slices.BinarySearch(o.sorted, start)
	if found && cursor == start {
		i++
	}
	for _, s := range o.sorted[i:] {
		if !strings.HasPrefix(s, prefix) || !yield(s) {
			return
		}
	}
}
