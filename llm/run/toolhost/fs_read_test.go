package toolhost

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/aibridge/aibridge/llm/run/fault"
)

func TestReadsAreWholeOrWindows(t *testing.T) {
	b := newBench(t)
	b.put(b.project, "a.md", "one\ntwo\r\nthree\nfour")
	whole := object{"ok": true, "path": "@project/a.md", "bytes": 19.0, "sha256": sum("one\ntwo\r\nthree\nfour"), "truncated": false}
	for _, c := range []struct {
		from, to any
		want     string
	}{
		{nil, nil, "one\ntwo\r\nthree\nfour"}, {1, 1, "one"}, {2, 2, "two"}, {2, 3, "two\r\nthree"}, {3, nil, "three\nfour"}, {nil, 2, "one\ntwo"}, {4, 100, "four"}, {5, 6, ""}, {"2", 2.0, "two"},
	} {
		args := object{"path": "@project/a.md"}
		if c.from != nil {
			args["startLine"] = c.from
		}
		if c.to != nil {
			args["endLine"] = c.to
		}
		want := object{"content": c.want}
		for k, v := range whole {
			want[k] = v
		}
		b.equal(b.call("fs.read", args), want)
	}
	for _, c := range [][2]int{{0, 1}, {-1, 1}, {2, 1}} {
		b.fails(fault.SchemaValidation, "fs.read", object{"path": "@project/a.md", "startLine": c[0], "endLine": c[1]})
	}
	b.fails(fault.NotFound, "fs.read", object{"path": "@project/nobody"})
	b.fails(fault.NotFound, "fs.read", object{"path": "@project"})
	b.equal(b.call("fs.read", object{"path": "@pkg/steps/ask.md"})["content"], "Ask.\n")
	b.put(b.project, "empty", "")
	b.equal(b.call("fs.read", object{"path": "@project/empty"})["content"], "")
}

func TestLargeFilesAreShownInPart(t *testing.T) {
	b := newBench(t)
	var text strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&text, "this is line number %d of a large file.\n", i+1)
	}
	b.put(b.project, "large", text.String())
	r := b.call("fs.read", object{"path": "@project/large"})
	preview, _ := r["contentPreview"].(string)
	if r["truncated"] != true || r["content"] != nil || len(preview) > DefaultMaxRead || len(preview) < DefaultMaxRead-100 || !strings.HasSuffix(preview, "file.\n") {
		t.Errorf("the preview has %d bytes", len(preview))
	}
	b.equal(r["sha256"], sum(text.String()))
	b.equal(r["bytes"], float64(text.Len()))
	lines := strings.Count(preview, "\n")
	if hint, _ := r["hint"].(string); !strings.Contains(hint, fmt.Sprintf("startLine=%d", lines+1)) || !strings.Contains(hint, "200000 lines") {
		t.Errorf("the hint is %q", hint)
	}
	r = b.call("fs.read", object{"path": "@project/large", "startLine": 199_999, "endLine": 200_000})
	b.equal(r["content"], "this is line number 199999 of a large file.\nthis is line number 200000 of a large file.")

	b.limits.MaxReadBytes = 100
	r = b.call("fs.read", object{"path": "@project/large", "startLine": 7, "endLine": 100})
	b.equal(r["contentPreview"], "this is line number 7 of a large file.\nthis is line number 8 of a large file.\n")
	b.put(b.project, "long", strings.Repeat("é", 1000))
	r = b.call("fs.read", object{"path": "@project/long"})
	b.equal(r["contentPreview"], strings.Repeat("é", 50))
	b.limits.MaxReadBytes = 101
	r = b.call("fs.read", object{"path": "@project/long"})
	b.equal(r["contentPreview"], strings.Repeat("é", 50))
	b.limits.MaxReadBytes = 1
	b.fails(fault.ReadLimit, "fs.read", object{"path": "@project/long"})
	b.put(b.project, "exact", "x")
	b.equal(b.call("fs.read", object{"path": "@project/exact"})["content"], "x")
}

func TestFilesThatAreNoTextAreNotShown(t *testing.T) {
	b := newBench(t)
	b.put(b.project, "image.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
	e := b.fails(fault.ReadLimit, "fs.read", object{"path": "@project/image.png"})
	b.equal(e["details"].(object)["sha256"], sum("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"))
	b.put(b.project, "latin", "caf\xe9\n")
	if text, _ := b.call("fs.read", object{"path": "@project/latin"})["content"].(string); text != "caf\ufffd\n" || !utf8.ValidString(text) {
		t.Errorf("read %q", text)
	}
}

func TestListsAreShortAndPlain(t *testing.T) {
	b := newBench(t)
	b.put(b.project, "b/c/d", "")
	b.put(b.project, "a.md", "")
	b.put(b.project, ".env", "")
	b.put(b.project, ".git/config", "")
	b.equal(b.call("fs.list", object{"path": "@project"}), object{"ok": true, "path": "@project", "entries": []any{"a.md", "b/"}})
	b.equal(b.call("fs.list", object{"path": "@project/b/"}), object{"ok": true, "path": "@project/b", "entries": []any{"c/"}})
	b.equal(b.call("fs.list", object{"path": "@pkg"}), object{"ok": true, "path": "@pkg", "entries": []any{"bmad.json", "steps/"}})
	b.equal(b.call("fs.list", object{"path": "@project/b/c"})["entries"], []any{"d"})
	b.fails(fault.NotFound, "fs.list", object{"path": "@project/nobody"})
	b.fails(fault.NotFound, "fs.list", object{"path": "@project/a.md"})
	for i := range 201 {
		b.put(b.project, fmt.Sprintf("many/%03d", i), "")
	}
	r := b.call("fs.list", object{"path": "@project/many"})
	preview, _ := r["entriesPreview"].([]any)
	if r["truncated"] != true || r["entries"] != nil || len(preview) != 200 || preview[199] != "199" || !strings.Contains(r["hint"].(string), "201") {
		t.Errorf("the list is %v", r)
	}
}
