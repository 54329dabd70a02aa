package console

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func packed(t *testing.T, name string) int {
	t.Helper()
	data, err := fs.ReadFile(Files(), name)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_, _ = w.Write(data)
	_ = w.Close()
	return out.Len()
}

// The budgets: what a browser loads first, all that there is, and what the
// binary grows by.
const (
	firstLoad = 60 << 10
	allLoads  = 250 << 10
	inBinary  = 1536 << 10
)

func TestTheConsoleKeepsToItsBudgets(t *testing.T) {
	t.Parallel()
	first, all, plain := 0, 0, 0
	err := fs.WalkDir(Files(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		size := packed(t, name)
		all += size
		if info, err := entry.Info(); err == nil {
			plain += int(info.Size())
		}
		switch name {
		case "index.html", "assets/core.js", "assets/core.css", "assets/home.js", "assets/icon.svg":
			first += size
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("first load %d, all %d, in the binary %d bytes", first, all, plain)
	if first > firstLoad || all > allLoads || plain > inBinary {
		t.Errorf("first load %d of %d, all %d of %d, in the binary %d of %d bytes", first, firstLoad, all, allLoads, plain, inBinary)
	}
}

func TestThePagesOfTheFrameAreServed(t *testing.T) {
	t.Parallel()
	frame, err := os.ReadFile("src/ui/frame.tsx")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`\{ id: "([a-z-]+)", word: "[^"]+", path: "([a-z-]*)"`).FindAllStringSubmatch(string(frame), -1) {
		if m[2] != "" && !slices.Contains(Pages, m[2]) {
			t.Errorf("the page %s has the address /%s, which is not served", m[1], m[2])
		}
	}
}

// TestTheSourcesLeaveMarkupAlone keeps out what would make markup of text, and
// what would keep a secret.
func TestTheSourcesLeaveMarkupAlone(t *testing.T) {
	t.Parallel()
	never := []string{"dangerouslySetInnerHTML", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "localStorage", "sessionStorage", "document.cookie", "srcdoc"}
	err := fs.WalkDir(os.DirFS("src"), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".ts") && !strings.HasSuffix(name, ".tsx") {
			return err
		}
		text, err := os.ReadFile("src/" + name)
		for _, word := range never {
			if bytes.Contains(text, []byte(word)) {
				t.Errorf("%s uses %s", name, word)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
