package run

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/protocol"
)

// replace imports the sample with a note, and returns the sum of its zip.
func (w *world) replace(note string) string {
	w.t.Helper()
	zip := sampleWith(w.t, note)
	if _, err := w.Import(w.t.Context(), callOf(alice), ImportParams{Content: base64Of(zip), Replace: true}); err != nil {
		w.t.Fatal(err)
	}
	sum := mount.SumOf(zip)
	return hex.EncodeToString(sum[:])
}

// stored reports whether the zip of a package is on disk.
func (w *world) stored(sum string) bool {
	w.t.Helper()
	_, err := os.Stat(w.library.path(sum))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Fatal(err)
	}
	return err == nil
}

func TestAReplacedPackageThatNobodyUsesGoes(t *testing.T) {
	w := newWorld(t, script())
	first := w.replace("first")
	if again := w.replace("first"); again != first || !w.stored(first) {
		t.Fatal("it is gone, but it is the package")
	}
	second := w.replace("second")
	if w.stored(first) || !w.stored(second) {
		t.Errorf("the first is there: %t, the second: %t", w.stored(first), w.stored(second))
	}
	if _, err := w.library.load(t.Context(), first); protocol.CodeOf(err) != protocol.NotFound {
		t.Errorf("the first can be read: %v", err)
	}
	if w.replace("first"); !w.stored(first) || w.stored(second) {
		t.Error("the first does not come back")
	}
}

func TestAReplacedPackageStaysForItsRuns(t *testing.T) {
	var later atomic.Int64
	w := newWorld(t, script(says("hello")), func(o *Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	first := w.replace("first")
	id := w.start(StartParams{Package: "climate-check", Project: "p"})
	w.rest(id)
	second := w.replace("second")
	w.restart(script(says("again")))
	w.goOn(id, ptr("more"))
	if got := w.rest(id); got.Message != "again" || !w.stored(first) {
		t.Fatalf("the run goes on as %+v; its package is there: %t", got, w.stored(first))
	}
	later.Store(int64(29 * 24 * time.Hour))
	w.tidy()
	if !w.stored(first) {
		t.Fatal("the package goes before its run")
	}
	later.Store(int64(31 * 24 * time.Hour))
	w.tidy()
	if w.stored(first) || !w.stored(second) {
		t.Errorf("after its run the first is there: %t, the second: %t", w.stored(first), w.stored(second))
	}
}

func TestAPackageStaysForARunThatIsNotStoredYet(t *testing.T) {
	w := newWorld(t, script())
	first := w.replace("first")
	l, err := w.reserveNew(t.Context(), callOf(alice), &StartParams{Package: "climate-check"})
	if err != nil {
		t.Fatal(err)
	}
	second := w.replace("second")
	w.prune([]string{first, second})
	if !w.stored(first) || !w.stored(second) {
		t.Errorf("the first is there: %t, the second: %t", w.stored(first), w.stored(second))
	}
	w.release(l)
	w.prune([]string{first, second})
	if w.stored(first) || !w.stored(second) {
		t.Errorf("without the run the first is there: %t, the second: %t", w.stored(first), w.stored(second))
	}
}

func TestAFreshZipIsLeftAlone(t *testing.T) {
	w := newWorld(t, script())
	first := w.replace("first")
	stray := w.library.path("0123")
	if err := os.WriteFile(stray, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.tidy()
	if _, err := os.Stat(stray); err != nil {
		t.Error(err)
	}
	old := time.Now().Add(-2 * fresh)
	for _, path := range []string{stray, w.library.path(first)} {
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	w.tidy()
	if _, err := os.Stat(stray); !errors.Is(err, fs.ErrNotExist) || !w.stored(first) {
		t.Errorf("the stray zip: %v, the package is there: %t", err, w.stored(first))
	}
}

func TestAMenuOfAMissingWorkflowFailsTheImport(t *testing.T) {
	w := newWorld(t, script())
	files := sampleFiles(t)
	files["agents.json"] = strings.Replace(files["agents.json"], `"workflow": "climate-check"`, `"workflow": "climate-chek"`, 1)
	_, err := w.Import(t.Context(), callOf(alice), ImportParams{Content: base64Of(zipOf(t, files))})
	if protocol.CodeOf(err) != protocol.InvalidParameter || !strings.Contains(fmt.Sprint(protocol.AsError(err).Details), `agents[0].menu[0].workflow`) {
		t.Errorf("the import ends with %v", err)
	}
	if got, _ := w.Packages(t.Context(), callOf(alice), PackagesParams{}); got.Total != 0 {
		t.Errorf("it is kept: %+v", got)
	}
}
