package evidence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
)

// appendEarlier writes a claim as an earlier version did.
func appendEarlier(dst []byte, c commands.Claim) []byte {
	begin := len(dst)
	dst = append(dst, make([]byte, earlierHead)...)
	dst = append(dst, 1)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(c.Expires.UnixMilli()))
	dst = append(dst, c.Hash[:]...)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(c.Principal)))
	dst = append(append(dst, c.Principal...), c.RequestID...)
	record := dst[begin:]
	binary.LittleEndian.PutUint32(record[4:], uint32(len(record)-earlierHead))
	binary.LittleEndian.PutUint32(record, crc32.Checksum(record[4:], castagnoli))
	return dst
}

func TestClaimsOfAnEarlierVersionAreTakenUp(t *testing.T) {
	var finished, unfinished []byte
	for n := range 3 {
		finished = appendEarlier(finished, claim(n, time.Minute))
	}
	unfinished = appendEarlier(appendEarlier(nil, claim(3, time.Minute)), claim(4, time.Minute))
	for name, test := range map[string]struct {
		first, second []byte
		want          []string
		fails         bool
	}{
		"whole":             {append(slices.Clone(finished), earlierSeal...), unfinished, []string{"request-0", "request-1", "request-2", "request-3", "request-4"}, false},
		"torn":              {finished, unfinished[:len(unfinished)-7], []string{"request-0", "request-1", "request-2", "request-3"}, false},
		"damaged":           {append(bytes.Replace(finished, []byte("request-1"), []byte("request-x"), 1), earlierSeal...), nil, nil, true},
		"damaged, unsealed": {bytes.Replace(finished, []byte("request-1"), []byte("request-x"), 1), nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, old := t.TempDir(), t.TempDir()
			for file, data := range map[string][]byte{"000000000001.claims": test.first, "000000000002.claims": test.second} {
				if err := os.WriteFile(filepath.Join(old, file), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			l := open(t, dir, Options{})
			err := l.Adopt(old)
			if (err != nil) != test.fails {
				t.Fatal(err)
			}
			if test.fails {
				if _, err := os.Stat(filepath.Join(old, "000000000001.claims")); err != nil {
					t.Error("the damaged file is gone")
				}
				return
			}
			wantPending(t, l, test.want...)
			if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder is still there: %v", err)
			}
			if err := l.Adopt(old); err != nil {
				t.Error(err)
			}
			shut(t, l)
			wantPending(t, open(t, dir, Options{}), test.want...) // as its own, now
		})
	}
}

// TestABlockIsImportedAsItIs fills a log from another, as a restore or a
// follower does.
func TestABlockIsImportedAsItIs(t *testing.T) {
	from := open(t, t.TempDir(), Options{SegmentBytes: 1000})
	from.Chain(new(testChain))
	for i := range 40 {
		from.Add(textEntry{"who", string(rune('a' + i%26))})
		from.Keep()
	}
	dir := t.TempDir()
	to := open(t, dir, Options{SegmentBytes: 3000})
	if to.HasEntries() {
		t.Error("a new log has entries")
	}
	if err := from.Read(t.Context(), func(_ uint64, block []byte) error { return to.Import([][]byte{block}) }); err != nil {
		t.Fatal(err)
	}
	want := entries(t, from)
	if got := entries(t, to); !slices.Equal(got, want) || !to.HasEntries() {
		t.Errorf("imported %q", got)
	}
	to.Chain(&testChain{next: 40})
	to.Add(textEntry{"who", "more"})
	shut(t, to)
	again := open(t, dir, Options{})
	if got := entries(t, again); !slices.Equal(got, append(want, "who=more")) {
		t.Errorf("after a restart there are %q", got)
	}
}
