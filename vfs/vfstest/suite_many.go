package vfstest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

func (w *world) race() {
	first := w.put("f", "start")
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		wins []string
	)
	for i := range 16 {
		wg.Go(func() {
			text := fmt.Sprint("writer ", i)
			_, err := w.Put(w.ctx, g, "f", strings.NewReader(text), vfs.PutOptions{IfVersion: &first.Version, Size: -1})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				wins = append(wins, text)
			} else if protocol.CodeOf(err) != protocol.RevisionConflict {
				w.Errorf("a writer got %v", err)
			}
		})
	}
	wg.Wait()
	if len(wins) != 1 || w.read("f", 0) != wins[0] {
		w.Fatalf("winners: %q; there is %q", wins, w.read("f", 0))
	}
}

func (w *world) whole() {
	content := func(i int) string { return strings.Repeat(string(rune('a'+i)), 100_000) }
	w.put("f", content(0))
	ctx, stop := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				w.read("f", 0) // compares with the checksum
			}
		})
	}
	for i := range 10 {
		w.put("f", content(i+1))
	}
	stop()
	wg.Wait()
}

func (w *world) context() {
	w.put("f", "x")
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := w.Put(ctx, g, "f", strings.NewReader("y"), unknown); err == nil {
		w.Fatal("a put with an ended context succeeded")
	}
	if w.read("f", 0) != "x" {
		w.Fatal("a put with an ended context did something")
	}
}

func (w *world) batches() {
	wrong := vfs.Sum{1}
	zero := uint64(0)
	old := w.put("old", "old")
	batch := []vfs.Content{
		{Path: "a", Data: []byte("one"), PutOptions: unknown},
		{Path: "../b", Data: []byte("two"), PutOptions: unknown},
		{Path: "c", Data: []byte("three"), PutOptions: vfs.PutOptions{Size: -1, SHA256: &wrong}},
		{Path: "old", Data: []byte("new"), PutOptions: vfs.PutOptions{Size: 3, IfVersion: &zero}},
		{Path: "A", Data: []byte("twin"), PutOptions: unknown},
		{Path: "d/e", Data: []byte("one"), PutOptions: vfs.PutOptions{Size: 3, IfVersion: &zero}},
		{Path: "a", Data: []byte("again"), PutOptions: unknown},
		{Path: "old", Data: []byte("newer"), PutOptions: vfs.PutOptions{Size: 5, IfVersion: &old.Version}},
	}
	for i := range 120 {
		batch = append(batch, vfs.Content{Path: fmt.Sprintf("many/%03d", i), Data: []byte(fmt.Sprint(i)), PutOptions: unknown})
	}
	results, err := vfs.PutAll(w.ctx, w.Files, g, batch)
	if err != nil || len(results) != len(batch) {
		w.Fatalf("%d results, %v", len(results), err)
	}
	for i, want := range []protocol.Code{"", protocol.InvalidParameter, protocol.SyncFailed, protocol.RevisionConflict, protocol.AlreadyExists, "", "", ""} {
		if protocol.CodeOf(results[i].Err) != want {
			w.Fatalf("result %d is %v, want %q", i, results[i].Err, want)
		}
	}
	for i, r := range results {
		if stat, err := w.Stat(w.ctx, g, batch[i].Path); r.Err == nil && batch[i].Path != "a" && (err != nil || !w.same(stat, r.File)) {
			w.Fatalf("result %d is %+v, stat says %+v, %v", i, r.File, stat, err)
		}
	}
	if w.read("a", 0) != "again" || w.read("d/e", 0) != "one" || w.read("old", 0) != "newer" || w.read("many/077", 0) != "77" {
		w.Fatal("a batch wrote something else")
	}
}

func (w *world) readAll() {
	want := map[string]string{"empty": "", "text": "on", "bytes": "\xff\x00\xfe", "d/new": "second"}
	w.put("d/new", "first")
	for path, text := range want {
		w.put(path, text)
	}
	w.put("gone", "x")
	if _, err := w.Delete(w.ctx, g, "gone", 0); err != nil {
		w.Fatal(err)
	}
	paths := []string{"gone", "bytes", "../f", "empty", "none", "text", "d/new", "text"}
	for i := range 40 { // more than one answer holds
		path := fmt.Sprintf("many/%02d", i)
		want[path] = strings.Repeat(string(rune('a'+i%26)), 30<<10)
		w.put(path, want[path])
		paths = append(paths, path)
	}
	wholes, err := vfs.GetAll(w.ctx, w.Files, g, paths)
	if err != nil || len(wholes) != len(paths) {
		w.Fatalf("%d files, %v", len(wholes), err)
	}
	for i, whole := range wholes {
		path, code := paths[i], protocol.Code("")
		switch path {
		case "gone", "none":
			code = protocol.FileNotFound
		case "../f":
			code = protocol.InvalidParameter
		}
		if protocol.CodeOf(whole.Err) != code {
			w.Fatalf("%s: %v, want %q", path, whole.Err, code)
		}
		if code != "" {
			continue
		}
		stat, err := w.Stat(w.ctx, g, path)
		f := whole.File
		if err != nil || string(whole.Data) != want[path] || f.Path != path || f.Version != stat.Version || f.SHA256 != stat.SHA256 || f.Size != stat.Size {
			w.Fatalf("%s: %d bytes of %+v, stat says %+v, %v", path, len(whole.Data), f, stat, err)
		}
	}
	if _, err := vfs.GetAll(w.ctx, w.Files, g, make([]string, vfs.MaxBatchFiles+1)); protocol.CodeOf(err) != protocol.PayloadTooLarge {
		w.Fatalf("too many files: %v", err)
	}
}
