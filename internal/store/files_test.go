package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A memoryPlace is a place of files in memory.
type memoryPlace struct {
	files   map[string]string
	folders map[string]bool
	done    bool
}

func newMemoryPlace() *memoryPlace {
	return &memoryPlace{files: make(map[string]string), folders: make(map[string]bool)}
}

func (p *memoryPlace) Check(name string) error {
	if path.Base(name) == "bad" {
		return errors.New("a bad file")
	}
	return nil
}

func (p *memoryPlace) Empty(context.Context) (bool, error) { return len(p.files) == 0, nil }

func (p *memoryPlace) Clear(context.Context) error {
	clear(p.files)
	return nil
}

func (p *memoryPlace) Folder(_ context.Context, name string) error {
	p.folders[name] = true
	return nil
}

func (p *memoryPlace) Done(context.Context) error {
	p.done = true
	return nil
}

func (p *memoryPlace) File(_ context.Context, name string) (RestoredFile, error) {
	return &memoryFile{place: p, name: name}, nil
}

type memoryFile struct {
	bytes.Buffer
	place *memoryPlace
	name  string
}

func (f *memoryFile) Commit() error {
	f.place.files[f.name] = f.String()
	return nil
}

func (f *memoryFile) Abort() {}

// source backs up files, in their order, with the folder "empty".
func source(place string, files ...string) FileSource {
	return FileSource{Place: place, Add: func(_ context.Context, w *FileWriter) error {
		if err := w.Folder("empty"); err != nil {
			return err
		}
		for i := 0; i < len(files); i += 2 {
			if err := w.File(files[i], strings.NewReader(files[i+1])); err != nil {
				return err
			}
		}
		return nil
	}}
}

func TestABackupHasFilesOfAnySize(t *testing.T) {
	s, _ := fresh(t)
	want := map[string]string{
		"none": "", "a/b/small": "x", "exact": strings.Repeat("y", filePiece), "large": strings.Repeat("zü\n", filePiece/2),
		"twice": "the second",
	}
	var archive bytes.Buffer
	m, err := s.Backup(t.Context(), &archive, BackupOptions{Files: []FileSource{
		source("one", "none", "", "a/b/small", "x", "twice", "the first", "exact", want["exact"]), source("one", "large", want["large"], "twice", "the second"), source("two"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if m.Files["one"] != 6 || m.Files["two"] != 0 {
		t.Errorf("it has %v", m.Files)
	}
	into := open(t, embedded(t, t.TempDir()), Options{})
	one, two := newMemoryPlace(), newMemoryPlace()
	if _, err := into.Restore(t.Context(), bytes.NewReader(archive.Bytes()), false, map[string]FileTarget{"one": one, "two": two}); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(one.files, want) || !one.folders["empty"] || !one.done || !two.folders["empty"] || len(two.files) != 0 {
		t.Errorf("restored %d files, folders %v and %v", len(one.files), one.folders, two.folders)
	}
	// What is there is spared, unless it is to be replaced.
	one.files["mine"] = "precious"
	_, err = open(t, embedded(t, t.TempDir()), Options{}).Restore(t.Context(), bytes.NewReader(archive.Bytes()), false, map[string]FileTarget{"one": one, "two": two})
	wantCode(t, err, protocol.InvalidState)
	if one.files["mine"] == "" {
		t.Error("a refused restore has removed a file")
	}
	if _, err := open(t, embedded(t, t.TempDir()), Options{}).Restore(t.Context(), bytes.NewReader(archive.Bytes()), true, map[string]FileTarget{"one": one, "two": two}); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(one.files, want) {
		t.Errorf("after a forced restore there are %d files", len(one.files))
	}
}

func TestFilesThatLeadElsewhereAreNotRestored(t *testing.T) {
	s, _ := fresh(t)
	into := open(t, embedded(t, t.TempDir()), Options{})
	for name, test := range map[string]struct {
		path, place, want string
	}{
		"a parent":        {"a/../../x", "one", "no path"},
		"absolute":        {"/etc/passwd", "one", "no path"},
		"the folder":      {".", "one", "no path"},
		"nothing":         {"", "one", "no path"},
		"of Windows":      {`a\..\x`, "one", "no path"},
		"of its place":    {"a/bad", "one", "a bad file"},
		"another place's": {"a", "three", "cannot be restored here"},
	} {
		var archive bytes.Buffer
		if _, err := s.Backup(t.Context(), &archive, BackupOptions{Files: []FileSource{source("one", "good", "x"), source(test.place, test.path, "x")}}); err != nil {
			t.Fatal(err)
		}
		one := newMemoryPlace()
		_, err := into.Restore(t.Context(), &archive, false, map[string]FileTarget{"one": one})
		if err == nil || !strings.Contains(err.Error(), test.want) || len(one.files)+len(one.folders) != 0 {
			t.Errorf("%s: %v, and %d files are there", name, err, len(one.files))
		}
	}
}

func TestFilesThatAreTornAreNotRestored(t *testing.T) {
	line := func(text string) []byte { return []byte(text) }
	for name, lines := range map[string][][]byte{
		"no end":        {line(`{"place":"one","path":"a","data":"eA=="}`)},
		"another first": {line(`{"place":"one","path":"a","data":"eA=="}`), line(`{"place":"one","path":"b","data":"eA==","last":true}`)},
		"a folder in":   {line(`{"place":"one","path":"a","data":"eA=="}`), line(`{"place":"one","path":"b","folder":true}`)},
		"a hole":        {line(`{"place":"one","path":"a","data":"eA=="}`), line(`{"place":"one","path":"a","at":2,"data":"eA==","last":true}`)},
		"no beginning":  {line(`{"place":"one","path":"a","at":1,"data":"eA==","last":true}`)},
	} {
		r := &fileReader{places: map[string]FileTarget{"one": newMemoryPlace()}, met: make(map[string]bool), dry: true}
		var err error
		for _, l := range lines {
			if err == nil {
				err = r.line(t.Context(), l)
			}
		}
		if errors.Join(err, r.end()) == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// A fullPlace has no room for any file.
type fullPlace struct{ *memoryPlace }

var errFull = errors.New("no room")

// A fileNeverBegun is what a place returns with an error: of no use.
type fileNeverBegun struct{ RestoredFile }

func (fullPlace) File(context.Context, string) (RestoredFile, error) {
	return fileNeverBegun{}, errFull
}

func TestARestoreThatCannotBeginAFileBreaksOff(t *testing.T) {
	s, _ := fresh(t)
	var archive bytes.Buffer
	if _, err := s.Backup(t.Context(), &archive, BackupOptions{Files: []FileSource{source("one", "a", "x")}}); err != nil {
		t.Fatal(err)
	}
	into := open(t, embedded(t, t.TempDir()), Options{})
	_, err := into.Restore(t.Context(), &archive, false, map[string]FileTarget{"one": fullPlace{newMemoryPlace()}})
	if !errors.Is(err, errFull) {
		t.Errorf("restored: %v", err)
	}
}

func TestABackupHasTheAuditTrailsOfAllBridges(t *testing.T) {
	s, _ := fresh(t)
	for _, bridge := range []string{"one", "b/2"} {
		a := openAudit(t, s, bridge)
		for _, g := range []string{"first of ", "second of "} {
			if err := a.Append(t.Context(), []byte(g+bridge)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var archive bytes.Buffer
	if m, err := s.Backup(t.Context(), &archive, BackupOptions{}); err != nil || m.Groups != 4 {
		t.Fatalf("%+v, %v", m, err)
	}
	into := open(t, embedded(t, t.TempDir()), Options{})
	if err := openAudit(t, into, "one").Append(t.Context(), []byte("its own")); err != nil {
		t.Fatal(err)
	}
	if _, err := into.Restore(t.Context(), &archive, true, nil); err != nil {
		t.Fatal(err)
	}
	if got := groups(t, openAudit(t, into, "one")); got != "1:its own " {
		t.Errorf("a trail that had entries is now %s", got)
	}
	if got := groups(t, openAudit(t, into, "b/2")); got != "1:first of b/2 2:second of b/2 " {
		t.Errorf("restored %s", got)
	}
}

// TestTheTrailsAreCopiedAfterWhatTheyTellOf has something recorded after the
// registry was copied: what settles the trails is in the backup, and a change
// of the registry at that moment is not.
func TestTheTrailsAreCopiedAfterWhatTheyTellOf(t *testing.T) {
	s, things := fresh(t)
	trail := openAudit(t, s, "one")
	var sections []string
	o := BackupOptions{
		Settle: func(ctx context.Context) error {
			_, err := things.Put(ctx, "late", &thing{})
			return errors.Join(err, trail.Append(ctx, []byte("told in time")))
		},
		Progress: func(p Progress) { sections = append(sections, p.Section) },
		Files:    []FileSource{source("one", "a", "x")},
	}
	if _, err := things.Put(t.Context(), "early", &thing{}); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	m, err := s.Backup(t.Context(), &archive, o)
	if err != nil || m.Keys != 1 || m.Groups != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if got := strings.Join(sections, " "); got != "registry audit files" {
		t.Errorf("progress was told of %s", got)
	}
	sections = nil
	if _, err := CheckArchive(&archive, o.Progress); err != nil || strings.Join(sections, " ") != "registry audit files" {
		t.Errorf("reading it: %v, %v", sections, err)
	}
	broken := errors.New("not stored")
	o.Settle = func(context.Context) error { return broken }
	if _, err := s.Backup(t.Context(), io.Discard, o); !errors.Is(err, broken) {
		t.Errorf("a trail that cannot be stored: %v", err)
	}
}

func TestBlobsMoveWithABackup(t *testing.T) {
	s, _ := fresh(t)
	blobs, err := s.OpenBlobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	content := strings.Repeat("content ", 400_000)
	blob, err := blobs.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(blob, content); err != nil {
		t.Fatal(err)
	}
	key, err := blob.Commit(vfs.Sum{})
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if _, err := s.Backup(t.Context(), &archive, BackupOptions{Files: []FileSource{{Place: "contents", Add: blobs.Add}}}); err != nil {
		t.Fatal(err)
	}
	into := open(t, embedded(t, t.TempDir()), Options{})
	moved, err := into.OpenBlobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := into.Restore(t.Context(), bytes.NewReader(archive.Bytes()), false, map[string]FileTarget{"contents": moved}); err != nil {
		t.Fatal(err)
	}
	r, err := moved.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); string(got) != content {
		t.Errorf("restored %d bytes, %v", len(got), err)
	}
	_, err = open(t, embedded(t, t.TempDir()), Options{}).Restore(t.Context(), bytes.NewReader(archive.Bytes()), false, map[string]FileTarget{"contents": moved})
	wantCode(t, err, protocol.InvalidState)
}
