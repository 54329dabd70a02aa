package journal

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A book is a journal in a folder of the test's.
type book struct {
	t    *testing.T
	dir  string
	root *os.Root
}

func newBook(t *testing.T) *book {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return &book{t, dir, root}
}

func (b *book) path() string { return filepath.Join(b.dir, "journal") }

// open returns the records that are found, and how much was cut off.
func (b *book) open() (l *Log, records []string, cut int64) {
	b.t.Helper()
	l, cut, err := Open(b.root, "journal", func(r []byte) error {
		records = append(records, string(r))
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return l, records, cut
}

func (b *book) write(records ...string) {
	b.t.Helper()
	l, _, _ := b.open()
	for _, r := range records {
		if err := l.Append(Append(nil, []byte(r)), len(r)%2 == 0); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.t.Fatal(err)
	}
}

func TestRecordsComeBackInOrder(t *testing.T) {
	b := newBook(t)
	want := []string{"first", "second", strings.Repeat("x", MaxRecord), "last"}
	b.write(want[:2]...)
	b.write(want[2:]...)
	l, got, cut := b.open()
	defer l.Close()
	if !slices.Equal(got, want) || cut != 0 {
		t.Fatalf("%d records, %d bytes cut off", len(got), cut)
	}
	info, err := os.Stat(b.path())
	if err != nil || info.Size() != l.Size() {
		t.Fatalf("%d bytes, thought to be %d", info.Size(), l.Size())
	}
}

// Wherever a crash tears the file, what is whole before is read, and what is
// written afterwards is read as well.
func TestAJournalTornAtAnyByteGoesOn(t *testing.T) {
	b := newBook(t)
	want := []string{"one", "two", "three"}
	b.write(want...)
	whole, err := os.ReadFile(b.path())
	if err != nil {
		t.Fatal(err)
	}
	for length := range len(whole) {
		if err := os.WriteFile(b.path(), whole[:length], 0o600); err != nil {
			t.Fatal(err)
		}
		l, got, _ := b.open()
		if !slices.Equal(got, want[:len(got)]) || length == len(whole)-1 && len(got) != 2 {
			t.Fatalf("%d bytes: %q", length, got)
		}
		if err := errors.Join(l.Append(Append(nil, []byte("more")), true), l.Close()); err != nil {
			t.Fatal(err)
		}
		l, again, cut := b.open()
		_ = l.Close()
		if !slices.Equal(again, append(got, "more")) || cut != 0 {
			t.Fatalf("%d bytes: %q, then %q", length, got, again)
		}
	}
}

// A bit that turned over ends the journal there. No record is made up.
func TestADamagedRecordIsNotBelieved(t *testing.T) {
	b := newBook(t)
	want := []string{"one", "two", "three"}
	b.write(want...)
	whole, err := os.ReadFile(b.path())
	if err != nil {
		t.Fatal(err)
	}
	for i := len(magic); i < len(whole); i++ {
		for bit := range 8 {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 1 << bit
			var got []string
			good, err := Read(bytes.NewReader(damaged), func(r []byte) error {
				got = append(got, string(r))
				return nil
			})
			if !errors.Is(err, ErrDamaged) || len(got) > 2 || !slices.Equal(got, want[:len(got)]) || good > int64(i) {
				t.Fatalf("byte %d: %q up to %d, %v", i, got, good, err)
			}
		}
	}
}

func TestWhatIsNoJournalIsLeftAlone(t *testing.T) {
	b := newBook(t)
	if err := os.WriteFile(b.path(), []byte("a letter to somebody"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(b.root, "journal", func([]byte) error { return nil }); !errors.Is(err, errNotJournal) {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(b.path()); err != nil || string(data) != "a letter to somebody" {
		t.Fatalf("%q, %v", data, err)
	}
	no := errors.New("a record of another version")
	b = newBook(t)
	b.write("x")
	if _, _, err := Open(b.root, "journal", func([]byte) error { return no }); !errors.Is(err, no) {
		t.Fatal(err)
	}
}

func TestAJournalIsWrittenAnew(t *testing.T) {
	b := newBook(t)
	b.write("old", "older")
	if err := os.WriteFile(b.path()+".new", []byte("of a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, _, _ := b.open()
	if _, err := os.Lstat(b.path() + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a crash left is still there: %v", err)
	}
	no := errors.New("no")
	if err := l.Rewrite(func(func([]byte) error) error { return no }); !errors.Is(err, no) {
		t.Fatal(err)
	}
	if err := l.Append(Append(nil, []byte("goes on")), false); err != nil {
		t.Fatal(err)
	}
	if err := l.Rewrite(func(emit func([]byte) error) error { return emit([]byte("new")) }); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Append(Append(nil, []byte("newer")), true), l.Close()); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(Append(nil, []byte("too late")), false); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("append to a closed journal: %v", err)
	}
	l, got, _ := b.open()
	defer l.Close()
	if !slices.Equal(got, []string{"new", "newer"}) {
		t.Fatalf("%q", got)
	}
}

// Whatever stands in a file, reading it ends, takes no more memory than a
// record, and what is good is exactly what the records take.
func FuzzRead(f *testing.F) {
	f.Add([]byte(magic))
	f.Add(Append(Append([]byte(magic), []byte("one")), []byte("two")))
	f.Add(append(Append([]byte(magic), []byte("one")), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0))
	f.Add([]byte("another magic"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		again := []byte(magic)
		good, err := Read(bytes.NewReader(data), func(r []byte) error {
			if len(r) == 0 || len(r) > MaxRecord {
				t.Fatalf("a record of %d bytes", len(r))
			}
			again = Append(again, r)
			return nil
		})
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, errNotJournal) {
			t.Fatal(err)
		}
		if good > 0 && !bytes.Equal(again, data[:good]) {
			t.Fatalf("%d bytes are good, the records take %d", good, len(again))
		}
	})
}
