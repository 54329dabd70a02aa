package vfs_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/aibridge/aibridge/vfs"
)

// largeFile is the size of the file of [BenchmarkALargeFileChanges]: 64 MiB, or
// as many MiB as AIBRIDGE_LARGE says.
func largeFile() int {
	if n, err := strconv.Atoi(os.Getenv("AIBRIDGE_LARGE")); err == nil {
		return n << 20
	}
	return 64 << 20
}

// BenchmarkALargeFileChanges stores versions of a large file that differ a
// little. put-ms/op is what that takes, without what a sender does to know the
// sum, and disk-KB/op what it adds to the disk.
func BenchmarkALargeFileChanges(b *testing.B) {
	content := make([]byte, largeFile(), largeFile()+1<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	inserted := append([]byte("x"), content...)
	middle := len(content) / 2
	for _, change := range []struct {
		name string
		do   func(w *timedWorld, before vfs.File, i int) error
	}{
		{"first version", func(w *timedWorld, before vfs.File, i int) error {
			content[middle]++
			defer w.timed()()
			_, err := w.files.Put(b.Context(), "g", fmt.Sprint("new", i), bytes.NewReader(content), vfs.PutOptions{Size: -1})
			return err
		}},
		{"one byte, sent whole", func(w *timedWorld, before vfs.File, i int) error {
			content[middle]++
			defer w.timed()()
			_, err := w.files.Put(b.Context(), "g", "f", bytes.NewReader(content), vfs.PutOptions{Size: -1})
			return err
		}},
		{"one byte in the middle", func(w *timedWorld, before vfs.File, i int) error {
			content[middle]++
			return changed(b, w, before, content, middle, 1)
		}},
		{"one byte at the end", func(w *timedWorld, before vfs.File, i int) error {
			content[len(content)-1]++
			return changed(b, w, before, content, len(content)-1, 1)
		}},
		{"appended", func(w *timedWorld, before vfs.File, i int) error {
			content = append(content, byte(i))
			return changed(b, w, before, content, len(content)-1, 1)
		}},
		{"inserted at the start", func(w *timedWorld, before vfs.File, i int) error {
			inserted[0]++
			defer w.timed()()
			_, err := w.files.Put(b.Context(), "g", "f", bytes.NewReader(inserted), vfs.PutOptions{Size: -1})
			return err
		}},
		{"renamed", func(w *timedWorld, before vfs.File, i int) error {
			defer w.timed()()
			_, err := vfs.PutCopy(b.Context(), w.files, "g", fmt.Sprint("renamed", i), vfs.Source{Path: "f", Version: before.Version}, vfs.PutOptions{Size: -1})
			return err
		}},
	} {
		b.Run(change.name, func(b *testing.B) {
			w := &timedWorld{world: open(b, func(o *vfs.StoreOptions) { o.Quota = 1 << 40 })}
			before, err := w.files.Put(b.Context(), "g", "f", bytes.NewReader(content), vfs.PutOptions{Size: -1})
			if err != nil {
				b.Fatal(err)
			}
			disk := onDisk(b, w.dir)
			i := 0
			for b.Loop() {
				if err := change.do(w, before, i); err != nil {
					b.Fatal(err)
				}
				if before, err = w.files.Stat(b.Context(), "g", "f"); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric(w.taken.Seconds()*1e3/float64(b.N), "put-ms/op")
			b.ReportMetric(float64(onDisk(b, w.dir)-disk)/1e3/float64(b.N), "disk-KB/op")
		})
	}
}

// A timedWorld measures what is done in it.
type timedWorld struct {
	*world
	taken time.Duration
}

// timed measures until the function it returns is called.
func (w *timedWorld) timed() func() {
	began := time.Now()
	return func() { w.taken += time.Since(began) }
}

// changed sends the chunks of a range as a delta of a version.
func changed(b *testing.B, w *timedWorld, before vfs.File, content []byte, at, n int) error {
	first, last := int64(at/vfs.ChunkSize), int64((at+n-1)/vfs.ChunkSize)
	delta := vfs.Delta{Base: before.Version}
	if first > 0 {
		delta.Keep = append(delta.Keep, vfs.Run{First: 0, Last: first - 1})
	}
	if end := int64(len(content)-1) / vfs.ChunkSize; last < end {
		delta.Keep = append(delta.Keep, vfs.Run{First: last + 1, Last: end})
	}
	sum := vfs.Sum(sha256.Sum256(content))
	body := content[first*vfs.ChunkSize : min(int(last+1)*vfs.ChunkSize, len(content))]
	defer w.timed()()
	_, err := vfs.PutChanged(b.Context(), w.files, "g", "f", delta, bytes.NewReader(body), vfs.PutOptions{Size: int64(len(content)), SHA256: &sum})
	return err
}

// onDisk is the number of bytes that a folder has.
func onDisk(b *testing.B, dir string) (n int64) {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkSmallFiles stores ten thousand files of 1 KiB, as a mirror does.
func BenchmarkSmallFiles(b *testing.B) {
	const files = 10_000
	for b.Loop() {
		w := open(b)
		for i := 0; i < files; i += vfs.MaxBatchFiles {
			batch := make([]vfs.Content, vfs.MaxBatchFiles)
			for j := range batch {
				data := append(fmt.Append(nil, i+j), make([]byte, 1<<10)...)
				batch[j] = vfs.Content{Path: fmt.Sprintf("d%d/f%d", (i+j)/100, i+j), Data: data, PutOptions: vfs.PutOptions{Size: -1}}
			}
			if _, err := w.files.PutBatch(b.Context(), "g", batch); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(files*b.N)/b.Elapsed().Seconds(), "files/s")
}
