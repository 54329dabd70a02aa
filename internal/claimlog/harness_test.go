package claimlog

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		claimUntilKilled(dir)
	}
	goleak.VerifyTestMain(m)
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

// segments are the names of the files in a folder.
func segments(t testing.TB, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// encoded is a segment with claims, without a seal.
func encoded(claims ...commands.Claim) (data []byte) {
	for _, c := range claims {
		data = appendRecord(data, c)
	}
	return data
}

func writeSegment(t testing.TB, dir string, number uint64, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, segmentName(number)), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// resum makes the checksum of the first record fit again after change.
func resum(data []byte, change func(payload []byte)) []byte {
	data = slices.Clone(data)
	if len(data) < headerSize+1 {
		return data
	}
	size := min(headerSize+int(binary.LittleEndian.Uint32(data[4:])), len(data))
	if change != nil {
		change(data[headerSize:size])
	}
	if size > 4 {
		binary.LittleEndian.PutUint32(data, crc32.Checksum(data[4:size], castagnoli))
	}
	return data
}
