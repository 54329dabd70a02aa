package mirror

import (
	"fmt"
	"testing"
)

// BenchmarkUnchangedTree looks at a tree of 10 000 files in which nothing has
// changed, with a VFS in memory that says the same of itself.
func BenchmarkUnchangedTree(b *testing.B) {
	w := newWorld(b)
	for i := range 10_000 {
		w.write(fmt.Sprintf("d%d/f%d", i/100, i), "content")
	}
	w.sync()
	w.sync() // lists what the first one sent
	b.ReportAllocs()
	for b.Loop() {
		w.sync()
	}
}
