package folder

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSyncedFoldersKeepAwayFromPrograms(t *testing.T) {
	dir := t.TempDir()
	at := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	for _, d := range []string{at("skills", "lamp", "scripts"), at("files"), at("linked")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		if err := os.Symlink(target, name); err != nil {
			t.Skip("no links here")
		}
	}
	link(at("skills", "lamp"), at("detour"))
	link(at("linked"), at("skills", "lamp", "more"))
	for name, c := range map[string]struct {
		dir string
		ok  bool
	}{
		"beside it":                   {at("files"), true},
		"not there yet":               {at("new", "files"), true},
		"a name that begins the same": {at("skills2"), true},
		"the same":                    {at("skills"), false},
		"inside":                      {at("skills", "lamp"), false},
		"inside, not there yet":       {at("skills", "new", "files"), false},
		"around it":                   {dir, false},
		"inside by a link":            {at("detour"), false},
		"below a link":                {at("detour", "scripts"), false},
		"linked from a skill":         {at("linked"), false},
		"around what a skill links":   {at("linked", "..", "linked"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := apart(c.dir, at("skills")); (err == nil) != c.ok {
				t.Errorf("error %v, want none: %t", err, c.ok)
			}
		})
	}
}
