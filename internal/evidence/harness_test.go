package evidence

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/internal/leaks"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		claimUntilKilled(dir)
	}
	leaks.Verify(m)
}

func claim(n int, life time.Duration) commands.Claim {
	id := fmt.Sprintf("request-%d", n)
	return commands.Claim{
		Principal: "operator/anna",
		RequestID: id,
		Hash:      sha256.Sum256([]byte(id)),
		Expires:   time.Now().Add(life).Truncate(time.Millisecond),
	}
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

// open opens a log until the test ends.
func open(t testing.TB, dir string, o Options) *Log {
	t.Helper()
	o.Log = slog.New(slog.NewTextHandler(testLog{t}, nil))
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, l) })
	return l
}

func shut(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func mustClaim(t testing.TB, l *Log, claims ...commands.Claim) {
	t.Helper()
	for _, c := range claims {
		if err := l.Claim(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
}

// pending are the pending claims by request id.
func pending(l *Log) map[string]commands.Claim {
	got := make(map[string]commands.Claim)
	l.Pending(func(c commands.Claim) bool {
		got[c.RequestID] = c
		return true
	})
	return got
}

func wantPending(t testing.TB, l *Log, ids ...string) {
	t.Helper()
	slices.Sort(ids)
	if got := slices.Sorted(maps.Keys(pending(l))); !slices.Equal(got, ids) {
		t.Errorf("pending are %q, want %q", got, ids)
	}
}

func wantCode(t testing.TB, err error, code protocol.Code) {
	t.Helper()
	if !errors.Is(err, &protocol.Error{Code: code}) {
		t.Errorf("got %v, want %s", err, code)
	}
}

// segments are the names of the files in a folder, without the indexes.
func segments(t testing.TB, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), indexSuffix) {
			names = append(names, f.Name())
		}
	}
	return names
}

// encoded is a segment with claims, a group for each, without a seal.
func encoded(claims ...commands.Claim) []byte {
	w := writerFrom(1)
	for _, c := range claims {
		w.claim(c)
		w.group()
	}
	return w.data
}

// A groupWriter writes segments as a log does.
type groupWriter struct {
	log  *Log
	data []byte
	ends []int // of the groups
	at   time.Time
}

func writerFrom(block uint32) *groupWriter {
	w := &groupWriter{log: &Log{gathering: newBatch(1), began: time.Now(), chain: new(testChain)}, at: time.Now()}
	w.log.options.defaults()
	w.log.block = block - 1
	w.log.roll = true
	return w
}

func (w *groupWriter) claim(c commands.Claim) { w.log.addClaim(&c) }

// group ends a group.
func (w *groupWriter) group() {
	for _, p := range w.log.gathering.pieces {
		w.data = append(w.data, w.log.frame(p, w.at)...)
		w.ends = append(w.ends, len(w.data))
		if p.entries > 0 {
			w.log.chain.Stored(p.entries)
		}
	}
	w.log.gathering.pieces = nil
}

// A testChain numbers entries and hashes nothing.
type testChain struct{ next uint64 }

func (c *testChain) Header(header []byte, entries int) {
	binary.LittleEndian.PutUint64(header[8:], c.next+1)
	binary.LittleEndian.PutUint32(header[16:], uint32(entries))
}

func (c *testChain) Seal([]byte) [SealSize]byte { return [SealSize]byte{1, 2, 3} }

func (c *testChain) Stored(entries int) { c.next += uint64(entries) }

// A textEntry is an entry that is a name and a text.
type textEntry struct{ name, text string }

func (e textEntry) AppendTo(dst []byte, to Place) []byte {
	to.Mark(e.name)
	return append(binary.AppendUvarint(dst, to.Number([]byte(e.name))), e.text...)
}

// entries are the texts of the entries of a log.
func entries(t testing.TB, l *Log) (texts []string) {
	t.Helper()
	var names Names
	err := l.Read(t.Context(), func(_ uint64, block []byte) error {
		for g, damage := range Groups(block) {
			if damage != nil {
				texts = append(texts, "damage")
				continue
			}
			if err := g.Entries(&names, func(body []byte) {
				n, text, _ := CutUvarint(body)
				texts = append(texts, fmt.Sprintf("%s=%s", names.Name(n), text))
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func writeSegment(t testing.TB, dir string, number uint32, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, segmentName(number)), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// resum makes the checksum of the first group fit again after change.
func resum(data []byte, change func(body []byte)) []byte {
	data = slices.Clone(data)
	if len(data) < groupHead {
		return data
	}
	size := min(frameHead+int(binary.LittleEndian.Uint32(data[8:])), len(data))
	if size < groupHead {
		return data
	}
	if change != nil {
		change(data[frameHead:size])
	}
	sumFrame(data[:size])
	return data
}

// claimSize is the size of the group of one claim, with its definitions.
func claimSize(c commands.Claim) int { return len(encoded(c)) }
