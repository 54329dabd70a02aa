package claimlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/aibridge/aibridge/commands"
)

// TestAnyHistoryLeavesExactlyTheValidClaims claims, restarts, tears ends and
// has the disk fail at random, and compares what is pending with what was
// acknowledged.
func TestAnyHistoryLeavesExactlyTheValidClaims(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		disk := newBadDisk()
		options := Options{
			SyncAlways: rapid.Bool().Draw(rt, "sync"),
			MaxBytes:   rapid.SampledFrom([]int64{1 << 30, 1 << 20, 8 << 10}).Draw(rt, "max"),
			create:     disk.create,
		}
		openAgain := func() *Log {
			l, err := Open(dir, options)
			if err != nil {
				rt.Fatal(err)
			}
			return l
		}
		l := openAgain()
		defer func() { _ = l.Close() }()
		acknowledged := make(map[string]commands.Claim) // those that do not expire soon
		expired := make(map[string]bool)                // those that may be there after a restart, as the clock may have been ahead
		n := 0
		compare := func() {
			got := pending(l)
			for id, want := range acknowledged {
				if c := got[id]; c.Principal != want.Principal || c.Hash != want.Hash || !c.Expires.Equal(want.Expires) {
					rt.Fatalf("%q: got %+v, want %+v", id, c, want)
				}
			}
			for id := range got {
				if _, ok := acknowledged[id]; !ok && !expired[id] {
					rt.Fatalf("%q is pending, which nobody claimed", id)
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"claim": func(rt *rapid.T) {
				n++
				c := claim(n, rapid.SampledFrom([]time.Duration{-time.Hour, -time.Second, 5 * time.Minute, 11 * time.Minute}).Draw(rt, "life"))
				c.Principal = rapid.String().Draw(rt, "principal")
				c.RequestID = fmt.Sprintf("%d-%s", n, rapid.String().Draw(rt, "id"))
				expired[c.RequestID] = c.Expires.Before(time.Now())
				if err := l.Claim(t.Context(), c); err == nil && c.Expires.After(time.Now()) {
					acknowledged[c.RequestID] = c
				} else if err != nil && options.MaxBytes > 1<<20 && !disk.writes.Load() && !disk.truncates.Load() {
					rt.Fatal(err)
				}
			},
			"restart": func(rt *rapid.T) {
				if err := l.Close(); err != nil {
					rt.Fatal(err)
				}
				l = openAgain()
				compare()
			},
			"crash": func(rt *rapid.T) {
				// A kill leaves the folder as it is, torn or not: copy it.
				torn := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(rt, "torn")
				copied, err := os.MkdirTemp(t.TempDir(), "")
				if err != nil {
					rt.Fatal(err)
				}
				if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
					rt.Fatal(err)
				}
				if l.active != nil {
					tear(rt, filepath.Join(copied, l.active.name), torn)
				}
				_ = l.Close()
				dir = copied
				l = openAgain()
				compare()
			},
			"disk": func(rt *rapid.T) {
				disk.writes.Store(rapid.Bool().Draw(rt, "full"))
				disk.room.Store(rapid.Int64Range(0, 200).Draw(rt, "room"))
			},
		})
	})
}

// tear adds to the end of a file what an unfinished write may have left.
func tear(rt *rapid.T, path string, torn []byte) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		rt.Fatal(err)
	}
	if _, err := f.Write(torn); err != nil {
		rt.Fatal(err)
	}
	if err := f.Close(); err != nil {
		rt.Fatal(err)
	}
}

func FuzzSegment(f *testing.F) {
	long := claim(3, time.Minute)
	long.Principal = strings.Repeat("p", 300)
	f.Add(encoded())
	f.Add(encoded(claim(1, time.Minute), long))
	f.Add(encoded(claim(1, time.Minute))[:40])
	f.Add(append(encoded(claim(1, time.Minute)), seal...))
	f.Add(resum(encoded(claim(1, time.Minute)), func(p []byte) { p[0] = 9 }))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, resum(data, nil)} {
			var again []byte
			good, err := readRecords(data, func(c commands.Claim) { again = appendRecord(again, c) })
			if string(again) != string(data[:good]) {
				t.Errorf("%x became %x", data[:good], again)
			}
			if (err == nil) != (good == len(data)) {
				t.Errorf("read %d of %d with %v", good, len(data), err)
			}
		}
	})
}
