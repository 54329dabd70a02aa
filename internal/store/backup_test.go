package store

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
)

// all is a copy of what a table has.
func all(t *Table[thing]) map[string]thing {
	got := make(map[string]thing)
	for key, v := range t.All() {
		got[key] = *v
	}
	return got
}

// A filledBackup is a backup of a store with things of many kinds in it.
type filledBackup struct {
	archive  []byte
	things   map[string]thing
	revision uint64 // of default/1
}

// filled makes the backup once.
func filled(t *testing.T) filledBackup {
	t.Helper()
	fillOnce.Do(func() { fill(t) })
	if filledStore.archive == nil {
		t.Fatal("there is no backup to restore")
	}
	return filledStore
}

var (
	fillOnce    sync.Once
	filledStore filledBackup
)

func fill(t *testing.T) {
	t.Helper()
	s, things := fresh(t)
	ctx := context.Background()
	for range 2 {
		var ops []Op
		for i := range 250 {
			ops = append(ops, things.PutOp(fmt.Sprintf("default/%d", i), &thing{Name: "<ü&\u2028>" + strings.Repeat("x", 30000), N: i}, 0))
		}
		if err := s.Atomic(ctx, ops...); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 50 {
		if err := things.Delete(ctx, fmt.Sprintf("default/%d", i), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Atomic(ctx, things.CreateOp("default/1", &thing{Name: "again"}), things.CreateOp("räume/küche.1", &thing{})); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := s.Claims().Claim(ctx, claim(i, 10*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	var archive bytes.Buffer
	m, err := s.Backup(ctx, &archive, BackupOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Claims != 20 || m.Keys < things.Len() || len(m.Parts) < 3 {
		t.Errorf("manifest = %+v", m)
	}
	_, revision, _ := things.Get("default/1")
	filledStore = filledBackup{archive.Bytes(), all(things), revision}
}

func TestABackupRestoresElsewhere(t *testing.T) {
	backup := filled(t)
	archive, want := backup.archive, backup.things

	n := embedded(t, t.TempDir())
	s := open(t, n, Options{Prefix: "other"})
	restored := NewTable[thing](s, "thing")
	// An io.Reader that cannot seek, as standard input.
	m, err := s.Restore(context.Background(), io.MultiReader(bytes.NewReader(archive)), false, nil)
	if err != nil {
		t.Fatal(err)
	}
	load(t, s)
	if got := all(restored); !maps.Equal(got, want) {
		t.Errorf("restored %d things, want %d, or they differ", len(got), len(want))
	}
	if got := pending(s); len(got) != 20 {
		t.Errorf("restored %d claims, want 20", len(got))
	}
	was := backup.revision
	_, is, _ := restored.Get("default/1")
	if is <= m.LastRevision || m.LastRevision < was {
		t.Errorf("revision %d became %d, with %d the last in the archive", was, is, m.LastRevision)
	}
	var again bytes.Buffer
	m2, err := s.Backup(context.Background(), &again, BackupOptions{})
	if err != nil || m2.Keys < len(want) {
		t.Errorf("backup of the restored = %+v, %v", m2, err)
	}
}

func TestRestoreSparesAStoreThatIsNotEmpty(t *testing.T) {
	backup := filled(t)
	archive, want := backup.archive, backup.things

	n := embedded(t, t.TempDir())
	s := open(t, n, Options{})
	mine := NewTable[thing](s, "thing")
	load(t, s)
	ctx := context.Background()
	if _, err := mine.Put(ctx, "mine", &thing{}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Restore(ctx, bytes.NewReader(archive), true, nil)
	wantCode(t, err, protocol.InvalidState) // loaded
	s.Close()

	s = open(t, n, Options{})
	_, err = s.Restore(ctx, bytes.NewReader(archive), false, nil)
	wantCode(t, err, protocol.InvalidState) // not empty
	if _, err = s.Restore(ctx, bytes.NewReader(archive), true, nil); err != nil {
		t.Fatal(err)
	}
	mine = NewTable[thing](s, "thing")
	load(t, s)
	if got := all(mine); !maps.Equal(got, want) {
		t.Errorf("restored %d things, want %d, or they differ", len(got), len(want))
	}
}

func TestRestoreIsRefusedWhileAnotherFollows(t *testing.T) {
	archive := filled(t).archive
	n := embedded(t, t.TempDir())
	other := open(t, n, Options{})
	load(t, other)
	s := open(t, n, Options{})
	_, err := s.Restore(context.Background(), bytes.NewReader(archive), true, nil)
	wantCode(t, err, protocol.InvalidState)
}

// rewrite copies an archive with its files changed by edit; nil drops a file.
func rewrite(t *testing.T, archive []byte, edit func(name string, data []byte) []byte) []byte {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	tw := tar.NewWriter(zw)
	for tr := tar.NewReader(zip); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if data = edit(h.Name, data); data == nil {
			continue
		}
		h.Size = int64(len(data))
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestADamagedBackupChangesNothing(t *testing.T) {
	archive := filled(t).archive
	const firstPart = registrySection + "/000001.jsonl"
	edited := func(file string, f func([]byte) []byte) []byte {
		return rewrite(t, archive, func(name string, data []byte) []byte {
			if name == file {
				return f(data)
			}
			return data
		})
	}
	manifest := func(f func(m *Manifest)) []byte {
		return edited(manifestFile, func(data []byte) []byte {
			var m Manifest
			if err := json.Unmarshal(data, &m); err != nil {
				t.Fatal(err)
			}
			f(&m)
			data, _ = json.Marshal(m)
			return data
		})
	}
	drop := func([]byte) []byte { return nil }
	tests := []struct {
		name    string
		archive []byte
		want    string
	}{
		{"empty", nil, "not a backup"},
		{"not gzip", []byte("hello, this is not an archive"), "not a backup"},
		{"cut off", archive[:len(archive)/2], "unexpected EOF"},
		{"cut off at the end", archive[:len(archive)-4], "unexpected EOF"},
		{"no manifest", edited(manifestFile, drop), "no manifest"},
		{"a part is missing", edited(firstPart, drop), "parts"},
		{"a value was changed", edited(firstPart, func(d []byte) []byte {
			return bytes.Replace(d, []byte(`"n":`), []byte(`"n":1`), 1)
		}), firstPart + " is damaged"},
		{"a line is not JSON", edited(firstPart, func(d []byte) []byte { return append(d, "{\n"...) }), firstPart + ": line"},
		{"a record of a newer bridge", edited(firstPart, func(d []byte) []byte {
			return bytes.Replace(d, []byte(`{"v":1,`), []byte(`{"v":4,`), 1)
		}), "newer bridge"},
		{"a newer format", manifest(func(m *Manifest) { m.Version++ }), "newer bridge"},
		{"another format", manifest(func(m *Manifest) { m.Format = "x" }), "not a backup"},
		{"the manifest names another sum", manifest(func(m *Manifest) { m.Parts[1].SHA256 = "00" }), "is damaged"},
	}
	s := open(t, embedded(t, t.TempDir()), Options{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := s.Restore(context.Background(), bytes.NewReader(test.archive), false, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Restore = %v, want %q", err, test.want)
			}
			info, err := inspect(context.Background(), s.state, s.names.registry)
			if err != nil {
				t.Fatal(err)
			}
			if info.State.LastSeq != 0 {
				t.Error("the store was changed")
			}
		})
	}
}

func TestAStoreWhoseRestoreBrokeOffDoesNotLoad(t *testing.T) {
	archive := filled(t).archive
	n := embedded(t, t.TempDir())
	s := open(t, n, Options{})
	info, err := inspect(t.Context(), s.state, s.names.registry)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.markRestoring(t.Context(), info.Config, true); err != nil {
		t.Fatal(err)
	}
	s.Close()

	s = open(t, n, Options{})
	if err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "was not completed") {
		t.Fatalf("Load = %v", err)
	}
	s.Close()

	s = open(t, n, Options{})
	if _, err := s.Restore(t.Context(), bytes.NewReader(archive), false, nil); err != nil {
		t.Fatal(err)
	}
	load(t, s)
}

// writePairs keeps writing the same number to two keys at once, until stop.
func writePairs(t *testing.T, s *Store, things *Table[thing]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	put := func(i int) error {
		return s.Atomic(ctx, things.PutOp("a", &thing{N: i}, 0), things.PutOp("b", &thing{N: i}, 0))
	}
	if err := put(0); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; ctx.Err() == nil; i++ {
			if err := put(i); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func TestABackupTakenWhileWritingIsConsistent(t *testing.T) {
	s, things := fresh(t)
	stop := writePairs(t, s, things)
	var archives [8]bytes.Buffer
	for i := range archives {
		if _, err := s.Backup(context.Background(), &archives[i], BackupOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	n := embedded(t, t.TempDir())
	for i := range archives {
		s := open(t, n, Options{})
		things := NewTable[thing](s, "thing")
		if _, err := s.Restore(context.Background(), &archives[i], true, nil); err != nil {
			t.Fatal(err)
		}
		load(t, s)
		a, _, _ := things.Get("a")
		b, _, _ := things.Get("b")
		if a == nil || b == nil || *a != *b {
			t.Fatalf("a = %v, b = %v", a, b)
		}
		s.Close()
	}
}

func TestAStreamIsReadToItsEndWhenTheServerSaysThatNothingIsLeft(t *testing.T) {
	s, things := fresh(t)
	for i := range 2 {
		if err := s.Atomic(t.Context(), things.PutOp("a", &thing{N: i}, 0), things.PutOp("b", &thing{N: i}, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for _, read := range []int{0, 1} {
		c, err := consume(t.Context(), s.state, s.names.registry, 1, askTimeout)
		if err != nil {
			t.Fatal(err)
		}
		met := 0
		for ; met < read; met++ {
			if _, err := c.next(); err != nil {
				t.Fatal(err)
			}
		}
		c.from, c.left = uint64(3+read), 0
		err = c.drain(func(message) error { met++; return nil })
		c.close()
		if err != nil || met != 2 {
			t.Errorf("read %d messages, %v, want 2", met, err)
		}
	}
}

func TestAStreamReadWhileItIsWrittenToIsConsistent(t *testing.T) {
	s, things := fresh(t)
	defer writePairs(t, s, things)()
	for range 50 {
		got := make(map[string]string)
		err := readStream(t.Context(), s.state, s.names.registry, func(m message) error {
			got[m.Subject] = string(m.Data)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		values := slices.Collect(maps.Values(got))
		if len(values) != 2 || values[0] != values[1] {
			t.Fatalf("read %v", got)
		}
	}
}
