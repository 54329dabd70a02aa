package vfs

import "testing"

// What shares chunks must have a list in the end.
func TestWhatMayShareChunks(t *testing.T) {
	for _, test := range []struct {
		size, most int64
		want       bool
	}{
		{minChunked, 1 << 40, true},
		{minChunked - 1, 1 << 40, false},
		{maxChunked, 1 << 40, true},
		{maxChunked + 1, 1 << 40, false},
		{-1, 1 << 40, false},
		{-1, maxChunked, true},
	} {
		s := &Store{opts: StoreOptions{MaxFile: test.most, Quota: 1 << 41}}
		if got := s.mayShare(test.size); got != test.want {
			t.Errorf("%d bytes of at most %d: %v", test.size, test.most, got)
		}
	}
}
