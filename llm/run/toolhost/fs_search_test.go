package toolhost

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
)

// found are matches as path:line:column:text.
func found(r object) (list []string) {
	matches, _ := r["matches"].([]any)
	for _, m := range matches {
		m := m.(object)
		list = append(list, fmt.Sprintf("%v:%v:%v:%v", m["path"], m["line"], m["column"], m["text"]))
	}
	return list
}

func TestSearchFindsLines(t *testing.T) {
	b := newBench(t)
	b.put(b.project, "a.md", "one\ntwo words two\r\nthree\nfour\nTWO é two")
	b.put(b.project, "docs/b.txt", "no\ntwo\n")
	b.put(b.project, "docs/deep/c.md", "two")
	b.put(b.project, ".hidden", "two")
	b.put(b.project, ".git/x", "two")
	b.put(b.project, "node_modules/x.md", "two")
	b.put(b.project, "binary", "two\x00two")
	if err := os.Symlink("a.md", filepath.Join(b.project, "link.md")); err != nil {
		t.Log("no links here")
	}
	all := []string{"@project/a.md:2:1:two words two", "@project/a.md:5:7:TWO é two", "@project/docs/b.txt:2:1:two", "@project/docs/deep/c.md:1:1:two"}
	for name, c := range map[string]struct {
		args object
		want []string
	}{
		"everywhere":          {object{"path": "@project", "pattern": "two"}, all},
		"without a path":      {object{"query": "two"}, all},
		"a folder":            {object{"path": "@project/docs/", "pattern": "two"}, all[2:]},
		"a file":              {object{"path": "@project/a.md", "pattern": "two"}, all[:2]},
		"a hidden file":       {object{"path": "@project/.hidden", "pattern": "two"}, []string{"@project/.hidden:1:1:two"}},
		"a name":              {object{"query": "two", "globs": []string{"*.txt"}}, all[2:3]},
		"any folder":          {object{"query": "two", "globs": []string{"**/*.md"}}, []string{all[0], all[1], all[3]}},
		"one folder":          {object{"query": "two", "globs": []string{"docs/*"}}, all[2:3]},
		"alternatives":        {object{"query": "two", "globs": []string{"docs/**/*.{md,txt}"}}, all[2:]},
		"a glob of a mount":   {object{"query": "Ask", "globs": []string{"@pkg/**"}}, []string{"@pkg/steps/ask.md:1:1:Ask."}},
		"globs in a path":     {object{"path": "@project/docs", "query": "two", "globs": []string{"*.md"}}, all[3:]},
		"no such file":        {object{"query": "two", "globs": []string{"*.go"}}, nil},
		"an expression":       {object{"pattern": "/^t.o$/"}, all[2:]},
		"without case":        {object{"pattern": "/^two/i"}, []string{all[0], "@project/a.md:5:1:TWO é two", all[2], all[3]}},
		"the end of a line":   {object{"path": "@project/a.md", "pattern": "/words two$/"}, []string{"@project/a.md:2:5:two words two"}},
		"no line is crossed":  {object{"path": "@project/a.md", "pattern": `/one\s+two/`}, nil},
		"a path, not a regex": {object{"path": "@project/a.md", "pattern": "/usr/words"}, nil},
		"a dot is a dot":      {object{"pattern": "t.o"}, nil},
		"nothing":             {object{"pattern": "seven"}, nil},
	} {
		r := b.call("fs.search", c.args)
		if fmt.Sprint(found(r)) != fmt.Sprint(c.want) || r["ok"] != true || r["matches"] == nil || r["truncated"] != nil {
			t.Errorf("%s: %v, not %v", name, r, c.want)
		}
	}
	r := b.call("fs.search", object{"path": "@project/a.md", "pattern": "three"})
	b.equal(r, object{"ok": true, "stats": object{"filesScanned": 1.0, "matchesFound": 1.0}, "matches": []any{object{
		"path": "@project/a.md", "line": 3.0, "column": 1.0, "text": "three", "before": []any{"two words two"}, "after": []any{"four"}}}})
	r = b.call("fs.search", object{"path": "@project/a.md", "pattern": "three", "before": 5, "after": 0})
	b.equal(r["matches"].([]any)[0].(object)["before"], []any{"one", "two words two"})
	b.equal(r["matches"].([]any)[0].(object)["after"], nil)
	for _, args := range []object{{}, {"pattern": ""}, {"pattern": "/(/"}, {"query": "x", "globs": []string{"{a"}}, {"pattern": strings.Repeat("x", 2000)}} {
		b.fails(fault.SchemaValidation, "fs.search", args)
	}
	b.fails(fault.NotFound, "fs.search", object{"path": "@project/nobody", "pattern": "x"})
	b.fails(fault.Sandbox, "fs.search", object{"pattern": "x", "globs": []string{"@secret/**"}})
}

func TestSearchStopsWhenItHasEnough(t *testing.T) {
	b := newBench(t)
	b.put(b.project, "fifty", strings.Repeat("x\n", 50))
	r := b.call("fs.search", object{"pattern": "x"})
	if len(found(r)) != 50 || r["truncated"] != nil {
		t.Errorf("found %d, truncated %v", len(found(r)), r["truncated"])
	}
	b.put(b.project, "more", "x")
	r = b.call("fs.search", object{"pattern": "x", "maxMatches": 1000})
	if len(found(r)) != 50 || r["truncated"] != true {
		t.Errorf("found %d, truncated %v", len(found(r)), r["truncated"])
	}
	if r = b.call("fs.search", object{"pattern": "x", "maxMatches": 3}); len(found(r)) != 3 || r["truncated"] != true {
		t.Errorf("found %d, truncated %v", len(found(r)), r["truncated"])
	}
	b.limits.MaxReadBytes = 1000
	if r = b.call("fs.search", object{"pattern": "x"}); len(found(r)) >= 20 || r["truncated"] != true {
		t.Errorf("found %d, truncated %v", len(found(r)), r["truncated"])
	}
}

func TestLongLinesAreShownAroundTheMatch(t *testing.T) {
	b := newBench(t)
	b.put(b.project, "long", strings.Repeat("é", 50_000)+"needle"+strings.Repeat("ü", 50_000))
	m := b.call("fs.search", object{"pattern": "needle"})["matches"].([]any)[0].(object)
	text, _ := m["text"].(string)
	if len(text) > 2*maxLine || !strings.Contains(text, "éneedleü") || strings.Contains(text, "\ufffd") {
		t.Errorf("the line is shown as %q", text)
	}
	b.equal(m["column"], 50_001.0)
}

func TestHostileExpressionsAreQuick(t *testing.T) {
	b := newBench(t)
	b.put(b.project, "a", strings.Repeat("a", 100_000))
	began := time.Now()
	if r := b.call("fs.search", object{"pattern": "/(a+)+$|(a|aa)+b/"}); r["ok"] != true {
		t.Error(r)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
}

func TestWhatAnExpressionNeedsIsFound(t *testing.T) {
	for expression, want := range map[string]string{
		"needle": "needle", "^a(needle)+b$": "needle", "x|y": "", "(?i)Needle": "needle", "(?i)haystack": "hay", "(?i)k": "", "a.*longer": "longer",
		"(?:abc){2,3}": "abc", "(?:abc)?d": "d", "(?i)größe": "gr", "[ab]": "", "": "",
	} {
		if got := needOf(expression); string(got.text) != want {
			t.Errorf("%q needs %q, not %q", expression, got.text, want)
		}
	}
}

func TestLettersOfOtherAlphabetsFold(t *testing.T) {
	b := newBench(t)
	b.put(b.project, "a", "GRÖSSE\nGRÖẞE\n\u212aelvin\n\u017fun\nElse")
	for pattern, want := range map[string]string{"/kelvin/i": "\u212aelvin", "/^sun/i": "\u017fun", "/größe/i": "GRÖẞE", "/ELSE/i": "Else"} {
		if got := found(b.call("fs.search", object{"pattern": pattern})); len(got) != 1 || !strings.HasSuffix(got[0], ":"+want) {
			t.Errorf("%s found %v", pattern, got)
		}
	}
}

// tree makes 10 000 files of 4 KB in 100 folders.
func tree(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	line := "a line of text that does not hold what is looked for, at all\n"
	text := []byte(strings.Repeat(line, 4096/len(line)))
	for i := range 100 {
		folder := filepath.Join(dir, fmt.Sprintf("folder-%02d", i))
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range 100 {
			if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("file-%02d.md", j)), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func BenchmarkSearch10000Files(b *testing.B) {
	folder, err := mount.OpenFolder(tree(b))
	if err != nil {
		b.Fatal(err)
	}
	defer folder.Close()
	host := &bounded{Host: New(Options{Mounts: &mount.Mounts{Project: folder}}), read: DefaultMaxRead}
	for name, pattern := range map[string]string{"text": "needle", "regexp": "/need(le|s)/", "ignoring case": "/needle/i"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r, err := host.search(b.Context(), searchArgs{Pattern: pattern})
				if err != nil || r.(SearchResult).Stats.FilesScanned != 10_000 {
					b.Fatal(r, err)
				}
			}
		})
	}
}
