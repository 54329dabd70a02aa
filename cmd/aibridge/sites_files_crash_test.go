package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aibridge/aibridge/internal/eventually"
	"github.com/aibridge/aibridge/vfs"
	"github.com/aibridge/aibridge/vfs/remote"
)

// TestEitherEndOfASiteIsKilledWhileFilesFollow kills the site and its centre in turn, each
// while files are written at the site, and a large one follows: in the end the centre has
// what the site has, byte by byte, also of what was deleted, and no older version of a file
// came after a newer one.
func TestEitherEndOfASiteIsKilledWhileFilesFollow(t *testing.T) {
	t.Parallel()
	centre, web, plant := freeAddress(), freeAddress(), freeAddress()
	ends := map[string]*siteEnd{
		"centre": {data: t.TempDir(), flags: []string{"--dev", "--id", "centre", "--mqtt", centre, "--http", web}},
		"plant": {data: t.TempDir(), flags: []string{
			"--dev", "--id", "plant", "--mqtt", plant, "--sites-join-name", "plant", "--sites-join-url", "mqtt://" + centre,
			"--sites-join-files", "*", "--sites-join-files-url", "http://" + web + "/vfs"}},
	}
	ends["centre"].start(t)
	ends["plant"].start(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the centre:\n%s\nthe site:\n%s", ends["centre"].log, ends["plant"].log)
		}
	})
	wrote := 0
	for round, name := range []string{"plant", "centre", "plant"} {
		before := wrote
		wrote = ends["plant"].writesUntilKilled(t, round, wrote, ends[name])
		ends[name].start(t)
		here, there := map[string]vfs.Sum{}, map[string]vfs.Sum{}
		differ := ""
		eventually.Holds(t, "the centre has the files of the site", func() bool {
			here, there = ends["plant"].sums(t.Context(), "pictures"), ends["centre"].sums(t.Context(), "plant.pictures")
			differ = difference(here, there)
			return differ == ""
		}, &differ)
		if len(here) == 0 || here["counter"] == (vfs.Sum{}) {
			t.Errorf("the site has %v", here)
		}
		t.Logf("the %s was killed after %d versions of one file; there are %d files", name, wrote-before, len(there))
	}
	film := ends["centre"].content(t, "plant.pictures", "film-2", 0)
	if !bytes.Equal(film, filmOf(2)) {
		t.Errorf("the film has %d bytes at the centre", len(film))
	}
	ends["centre"].countsUp(t)
}

// web are the files of a bridge, as everybody has them under --dev.
func (e *siteEnd) web() *remote.Client {
	c, err := remote.New(remote.Options{URL: "http://" + e.addresses.HTTP + "/vfs"})
	if err != nil {
		panic(err)
	}
	return c
}

// writesUntilKilled writes files until an end is killed, in the middle: new ones, one that
// counts up, a large one, and one that was there is deleted. It returns the last number
// that was counted.
func (e *siteEnd) writesUntilKilled(t *testing.T, round, counted int, killed *siteEnd) int {
	t.Helper()
	c := e.web()
	defer c.Close()
	film := filmOf(round)
	sum := vfs.Sum(sha256.Sum256(film))
	if _, err := c.PutFile(t.Context(), "pictures", fmt.Sprint("film-", round), bytes.NewReader(film), vfs.PutOptions{Size: int64(len(film)), SHA256: &sum}); err != nil {
		t.Fatal(err)
	}
	var dying sync.WaitGroup
	defer dying.Wait()
	const before, after = 25, 40
	for i := range after {
		if i == before {
			dying.Go(killed.kill)
		}
		texts := map[string]string{"counter": strconv.Itoa(counted + 1), fmt.Sprintf("round-%d/%d", round, i): fmt.Sprint("picture ", i)}
		for path, text := range texts {
			if _, err := c.Put(t.Context(), "pictures", path, strings.NewReader(text), vfs.PutOptions{Size: int64(len(text))}); err != nil {
				if i < before {
					t.Fatal(err)
				}
				return counted + 1 // perhaps
			}
		}
		counted++
		if i == before/2 && round > 0 {
			if _, err := c.Delete(t.Context(), "pictures", fmt.Sprintf("round-%d/%d", round-1, i), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	return counted
}

// filmOf is the content of a large file.
func filmOf(round int) []byte {
	data := make([]byte, 6<<20+round)
	_, _ = rand.NewChaCha8([32]byte{byte(round)}).Read(data)
	return data
}

// sums are the digests of the files of a group; empty if the bridge does not answer.
func (e *siteEnd) sums(ctx context.Context, group string) map[string]vfs.Sum {
	c := e.web()
	defer c.Close()
	list, _, err := c.List(ctx, group, "", "", vfs.MaxLimit, false)
	if err != nil {
		return nil
	}
	sums := map[string]vfs.Sum{}
	for _, f := range list {
		sums[f.Path] = f.SHA256
	}
	return sums
}

// difference names a file that is not the same at both ends, "" if all are.
func difference(here, there map[string]vfs.Sum) string {
	for path, sum := range here {
		if there[path] != sum {
			return path + " is not at the centre as it is at the site"
		}
	}
	for path := range there {
		if _, ok := here[path]; !ok {
			return path + " is at the centre alone"
		}
	}
	if len(here) == 0 {
		return "there are no files"
	}
	return ""
}

// content is the content of a version of a file.
func (e *siteEnd) content(t *testing.T, group, path string, version uint64) []byte {
	t.Helper()
	c := e.web()
	defer c.Close()
	r, _, err := c.Open(t.Context(), group, path, version)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// countsUp checks that the kept versions of the file that counts up came in their order.
func (e *siteEnd) countsUp(t *testing.T) {
	t.Helper()
	var found struct{ Versions []vfs.FileView }
	if err := asks(t, dial(t, e.binary), "vfs.versions", map[string]any{"group_name": "plant.pictures", "path": "counter"}, &found); err != nil {
		t.Fatal(err)
	}
	last := 1 << 30
	for _, v := range found.Versions { // the latest first
		n, err := strconv.Atoi(string(e.content(t, "plant.pictures", "counter", v.Version)))
		if err != nil || n >= last {
			t.Errorf("%d came before %d: %v", n, last, err)
		}
		last = n
	}
}
