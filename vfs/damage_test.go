package vfs_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// damages are ways in which a disk harms a file.
var damages = map[string]func(name string, data []byte) error{
	"a flipped bit": func(name string, data []byte) error {
		data = bytes.Clone(data)
		data[len(data)/2] ^= 1
		return os.WriteFile(name, data, 0o600)
	},
	"a cut":  func(name string, data []byte) error { return os.WriteFile(name, data[:len(data)/2], 0o600) },
	"a loss": func(name string, _ []byte) error { return os.Remove(name) },
}

// damage harms every blob on the disk.
func (w *world) damage(how func(name string, data []byte) error) {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.dir, "blobs", "*", "*"))
	if err != nil || len(found) == 0 {
		w.t.Fatal(found, err)
	}
	for _, name := range found {
		data, err := os.ReadFile(name)
		if err == nil {
			err = how(name, data)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// shared puts a file into a blob that another has content in, too.
func (w *world) shared(path, text string) vfs.File {
	w.t.Helper()
	results, err := w.files.PutBatch(w.t.Context(), "g", []vfs.Content{
		{Path: "companion", Data: []byte("another"), PutOptions: vfs.PutOptions{Size: -1}},
		{Path: path, Data: []byte(text), PutOptions: vfs.PutOptions{Size: -1}},
	})
	if err != nil || results[0].Err != nil || results[1].Err != nil {
		w.t.Fatal(results, err)
	}
	return results[1].File
}

func (w *world) reads(path, text string) {
	w.t.Helper()
	if got, err := w.read(path, 0); err != nil || got != text {
		w.t.Fatalf("%s reads %d bytes of %d, %v", path, len(got), len(text), err)
	}
}

// A content that a read found damaged is written anew by whoever stores it
// next, also after a restart, and then relied on again.
func TestWhatIsFoundDamagedIsWrittenAnew(t *testing.T) {
	alone := "large and alone"
	for size, text := range map[string]string{"small": "small text", "large": strings.Repeat("large ", 50_000), alone: strings.Repeat("alone ", 50_000)} {
		for what, how := range damages {
			for _, restart := range []bool{false, true} {
				t.Run(size+" "+what, func(t *testing.T) {
					w := open(t)
					var first vfs.File
					if size == alone {
						first = w.put("f", text)
					} else {
						first = w.shared("f", text)
					}
					w.put("g", text)
					w.damage(how)
					if got, err := w.read("f", 0); protocol.CodeOf(err) != protocol.SyncFailed || got == text {
						t.Fatalf("damaged, it reads %d bytes, %v", len(got), err)
					}
					if restart {
						w.start()
					}
					w.put("new", text)
					w.reads("new", text)
					again := w.put("f", text)
					w.reads("f", text)
					if again.ID != first.ID || again.Version <= first.Version && size != alone { // which was mended with the new one
						t.Fatalf("stored again it is %+v, after %+v", again, first)
					}
					w.put("g", text)
					w.reads("g", text)
					if restart {
						w.start()
					}
					if f := w.put("f", text); f != again {
						t.Errorf("whole again, it is stored once more: %+v after %+v", f, again)
					}
					before := w.blobs()
					w.put("another", text)
					if w.blobs() != before {
						t.Error("whole again, it is not kept once")
					}
				})
			}
		}
	}
}

// What is shorter than it should be, or gone, is noticed before it is relied
// on, without that anybody has read it.
func TestWhatIsCutIsNotReliedOn(t *testing.T) {
	for _, what := range []string{"a cut", "a loss"} {
		for size, text := range map[string]string{"small": "small text", "large": strings.Repeat("large ", 50_000)} {
			t.Run(size+" "+what, func(t *testing.T) {
				w := open(t)
				w.put("f", text)
				w.damage(damages[what])
				w.put("f", text)
				w.reads("f", text)
				w.put("new", text)
				w.reads("new", text)

				w.damage(damages[what])
				batch := []vfs.Content{
					{Path: "f", Data: []byte(text), PutOptions: vfs.PutOptions{Size: -1}},
					{Path: "batched", Data: []byte(text), PutOptions: vfs.PutOptions{Size: -1}},
				}
				results, err := w.files.PutBatch(t.Context(), "g", batch)
				if err != nil || results[0].Err != nil || results[1].Err != nil {
					t.Fatal(results, err)
				}
				w.reads("f", text)
				w.reads("batched", text)
			})
		}
	}
}

// sweeping are blobs that are told to sweep.
type sweeping struct {
	vfs.Blobs
	before []time.Time
}

func (s *sweeping) Sweep(_ context.Context, before time.Time) (int, error) {
	s.before = append(s.before, before)
	return 1, nil
}

func TestTidyingSweepsUpWhatNobodyWritesAnyMore(t *testing.T) {
	blobs := &sweeping{}
	w := open(t, func(o *vfs.StoreOptions) {
		blobs.Blobs = o.Blobs
		o.Blobs = blobs
	})
	w.CollectGarbage(t.Context())
	w.CollectGarbage(t.Context()) // so soon that a writer may have added nothing meanwhile
	if len(blobs.before) != 1 || time.Since(blobs.before[0]) < 24*time.Hour {
		t.Errorf("swept %d times, what was written before %v", len(blobs.before), blobs.before)
	}
}
