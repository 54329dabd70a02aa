package evidence

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
			MaxClaims:  rapid.SampledFrom([]int64{1 << 30, 1 << 20, 8 << 10}).Draw(rt, "max"),
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
		chain := new(testChain)
		var texts []string // of the entries
		l.Chain(chain)
		compare := func() {
			if got := entries(t, l); !slices.Equal(got, texts) {
				rt.Fatalf("the entries are %q, want %q", got, texts)
			}
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
				} else if err != nil && options.MaxClaims > 1<<20 && !disk.writes.Load() && !disk.truncates.Load() {
					rt.Fatal(err)
				}
			},
			"entry": func(rt *rapid.T) {
				n++
				e := textEntry{rapid.SampledFrom([]string{"anna", "bert", "carl"}).Draw(rt, "name"), fmt.Sprint(n)}
				if !l.Add(e) {
					rt.Fatal("an entry is not taken")
				}
				texts = append(texts, e.name+"="+e.text)
				if rapid.Bool().Draw(rt, "kept") {
					l.Keep()
				}
			},
			"restart": func(rt *rapid.T) {
				disk.writes.Store(false)
				if err := l.Close(); err != nil {
					rt.Fatal(err)
				}
				l = openAgain()
				l.Chain(chain)
				compare()
			},
			"crash": func(rt *rapid.T) {
				// A kill leaves the folder as it is, torn or not: copy it.
				disk.writes.Store(false)
				if err := l.Settle(t.Context()); err != nil {
					rt.Fatal(err)
				}
				torn := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(rt, "torn")
				copied, err := os.MkdirTemp(t.TempDir(), "")
				if err != nil {
					rt.Fatal(err)
				}
				if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
					rt.Fatal(err)
				}
				if l.active != nil {
					tear(rt, filepath.Join(copied, l.active.name()), torn)
				}
				_ = l.Close()
				dir = copied
				l = openAgain()
				l.Chain(chain)
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

func FuzzGroups(f *testing.F) {
	long := claim(3, time.Minute)
	long.Principal = strings.Repeat("p", 300)
	f.Add(encoded())
	f.Add(encoded(claim(1, time.Minute), long))
	f.Add(encoded(claim(1, time.Minute))[:40])
	f.Add(append(encoded(claim(1, time.Minute)), seal...))
	f.Add(resum(encoded(claim(1, time.Minute)), func(p []byte) { p[0] = 9 }))
	w := writerFrom(7)
	w.log.Add(textEntry{"who", "what"})
	w.claim(claim(4, time.Minute))
	w.group()
	f.Add(w.data)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, resum(data, nil)} {
			read := 0
			var names Names
			for g, damage := range Groups(data) {
				if damage != nil {
					read += damage.Bytes
					continue
				}
				if string(g.Bytes) != string(data[read:read+len(g.Bytes)]) {
					t.Fatal("a group is not what stands there")
				}
				read += len(g.Bytes)
				claims := 0
				_ = g.visit(&names, visitor{claim: func(commands.Claim) { claims++ }, entry: func([]byte) {}})
				if g.Chained {
					_, _ = g.First(), g.Count()
				}
			}
			if read != len(data) {
				t.Errorf("read %d of %d bytes", read, len(data))
			}
		}
	})
}
