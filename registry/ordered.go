package registry

import (
	"iter"
	"slices"
	"strings"
)

// chunkSize bounds how much an insertion moves.
const chunkSize = 256

// An ordered set keeps values sorted by a key, so that a list can be continued
// where it ended even if values were added in between. Sorted chunks make insertion
// cheap among a hundred thousand values and cost next to nothing over a plain slice
// for a few.
type ordered[T any] struct {
	key    func(T) string
	chunks [][]T // none is empty
	n      int
}

func newOrdered[T any](key func(T) string) *ordered[T] { return &ordered[T]{key: key} }

func (o *ordered[T]) len() int { return o.n }

// put adds a value, in place of the one with the same key.
func (o *ordered[T]) put(v T) {
	key := o.key(v)
	c := o.chunkOf(key)
	if c == len(o.chunks) {
		if c == 0 {
			o.chunks, o.n = append(o.chunks, []T{v}), 1
			return
		}
		c-- // behind the last: grow the last chunk
	}
	chunk := o.chunks[c]
	i, found := slices.BinarySearchFunc(chunk, key, o.compare)
	if found {
		chunk[i] = v
		return
	}
	o.n++
	chunk = slices.Insert(chunk, i, v)
	if len(chunk) <= chunkSize {
		o.chunks[c] = chunk
		return
	}
	half := len(chunk) / 2
	if i == len(chunk)-1 {
		half = i // filled in order: leave full chunks behind
	}
	o.chunks[c] = slices.Clone(chunk[:half])
	o.chunks = slices.Insert(o.chunks, c+1, slices.Clone(chunk[half:]))
}

// remove takes the value with the key out.
func (o *ordered[T]) remove(key string) {
	c := o.chunkOf(key)
	if c == len(o.chunks) {
		return
	}
	i, found := slices.BinarySearchFunc(o.chunks[c], key, o.compare)
	if !found {
		return
	}
	o.n--
	if o.chunks[c] = slices.Delete(o.chunks[c], i, i+1); len(o.chunks[c]) == 0 {
		o.chunks = slices.Delete(o.chunks, c, c+1)
	}
}

// has reports whether there is a value with the key.
func (o *ordered[T]) has(key string) bool {
	c := o.chunkOf(key)
	if c == len(o.chunks) {
		return false
	}
	_, found := slices.BinarySearchFunc(o.chunks[c], key, o.compare)
	return found
}

// get finds the value with the key.
func (o *ordered[T]) get(key string) (v T, ok bool) {
	c := o.chunkOf(key)
	if c == len(o.chunks) {
		return v, false
	}
	if i, found := slices.BinarySearchFunc(o.chunks[c], key, o.compare); found {
		return o.chunks[c][i], true
	}
	return v, false
}

// after yields the values with keys greater than key, in order.
func (o *ordered[T]) after(key string) iter.Seq[T] {
	return func(yield func(T) bool) {
		for c := o.chunkOf(key); c < len(o.chunks); c++ {
			for _, v := range o.chunks[c] {
				if o.key(v) > key && !yield(v) {
					return
				}
			}
		}
	}
}

// chunkOf is the first chunk whose last key is not less than key.
func (o *ordered[T]) chunkOf(key string) int {
	c, _ := slices.BinarySearchFunc(o.chunks, key, func(chunk []T, key string) int {
		return strings.Compare(o.key(chunk[len(chunk)-1]), key)
	})
	return c
}

func (o *ordered[T]) compare(v T, key string) int { return strings.Compare(o.key(v), key) }
