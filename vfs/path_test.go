package vfs

import (
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/aibridge/aibridge/protocol"
)

var goodPaths = []string{
	"a", "cap.json", "disk/data/2026/values.csv", ".hidden", "a..b", "a b/c d", "温度.json", "é/ü.txt",
	"console.log", "nullable", "com10", "lpt", "🤖/x", strings.Repeat("x", 255),
	strings.Repeat(strings.Repeat("x", 127)+"/", 8)[:1023] + "y", "-rf", "~", "a$b", "%2e%2e",
}

var badPaths = map[string]string{
	"":                              "is empty",
	"/etc/passwd":                   "relative",
	"../x":                          "..",
	"a/../b":                        "..",
	"a/..":                          "..",
	".":                             ".",
	"a/./b":                         ".",
	"a//b":                          "empty name",
	"a/":                            "empty name",
	"a\x00b":                        "control",
	"a\nb":                          "control",
	"a\u0085b":                      "control",
	"a\\b":                          "backslash",
	"..\\b":                         "backslash",
	"C:/x":                          "colon",
	"file:stream":                   "colon",
	"a.":                            "dot or a space",
	"a ":                            "dot or a space",
	"a /b":                          "dot or a space",
	"...":                           "dot or a space",
	"CON":                           "device",
	"nul.txt":                       "device",
	"x/Com1":                        "device",
	"lpt¹.x":                        "device",
	"aux .c":                        "device",
	"conin$":                        "device",
	"e\u0301.txt":                   "NFC",
	"\xff":                          "UTF-8",
	"a\u202etxt.exe":                "invisible",
	"a\u200bb":                      "invisible",
	"a\ufffeb":                      "invisible",
	strings.Repeat("x", 256):        "255",
	strings.Repeat("ä", 128):        "255",
	strings.Repeat("x/", 512) + "y": "1024",
}

func TestPathsThatEverySystemCanHoldPass(t *testing.T) {
	for _, path := range goodPaths {
		if got, err := CleanPath(path); err != nil || got != path {
			t.Errorf("CleanPath(%.40q) = %.40q, %v", path, got, err)
		}
	}
}

func TestPathTricksAreRefused(t *testing.T) {
	for path, want := range badPaths {
		_, err := CleanPath(path)
		if protocol.CodeOf(err) != protocol.InvalidParameter {
			t.Errorf("CleanPath(%.40q) = %v, want a 1001", path, err)
		} else if reason := protocol.AsError(err).Details["reason"].(string); !strings.Contains(reason, want) {
			t.Errorf("CleanPath(%.40q) says %q, which does not tell of %q", path, reason, want)
		}
	}
}

func FuzzCleanPath(f *testing.F) {
	for _, path := range goodPaths {
		f.Add(path)
	}
	for path := range badPaths {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got, err := CleanPath(path)
		if err != nil {
			return
		}
		if got != path || !utf8.ValidString(path) || !norm.NFC.IsNormalString(path) || len(path) > MaxPath {
			t.Fatalf("%q passes as %q", path, got)
		}
		for name := range strings.SplitSeq(path, "/") {
			if name == "" || name == "." || name == ".." || len(name) > MaxSegment || strings.ContainsAny(name, "\\:\x00") {
				t.Fatalf("%q passes with the name %q", path, name)
			}
		}
		if twice := foldPath(foldPath(path)); foldPath(twice) != twice {
			t.Fatalf("folding %q does not come to an end", path)
		}
	})
}

func TestTwinsAreNamed(t *testing.T) {
	var n pathSet
	for _, path := range []string{"Read.Me", "disk/Data/a", "straße"} {
		n.add(path)
	}
	for path, want := range map[string]string{
		"read.me":       "Read.Me",
		"Disk":          "disk",
		"disk":          "disk",
		"disk/data/b":   "disk/Data",
		"DISK/x":        "disk",
		"disk/Data/A":   "disk/Data/a",
		"disk/Data/a/b": "disk/Data/a",
		"Read.Me/x":     "Read.Me",
		"STRASSE":       "straße",
	} {
		if twin, ok := n.collision(path); !ok || twin != want {
			t.Errorf("the twin of %q is %q, %v; want %q", path, twin, ok, want)
		}
	}
	for _, path := range []string{"Read.Me", "disk/Data/a", "disk/Data/b", "disk/x", "other"} {
		if twin, ok := n.collision(path); ok {
			t.Errorf("%q has the twin %q", path, twin)
		}
	}
	n.remove("disk/Data/a")
	if twin, ok := n.collision("DISK"); ok {
		t.Errorf("an empty folder is still in the way: %q", twin)
	}
}

func TestGroupNamesAreOneLevel(t *testing.T) {
	for _, group := range []string{"skill-a-group", "cap", "climate:upstairs", "群组"} {
		if err := CheckGroup(group); err != nil {
			t.Errorf("CheckGroup(%q) = %v", group, err)
		}
	}
	for _, group := range []string{"", ".", "..", "a/b", "a+", "#", "$x", "a\x00", strings.Repeat("x", 65)} {
		if err := CheckGroup(group); protocol.CodeOf(err) != protocol.InvalidParameter {
			t.Errorf("CheckGroup(%q) = %v, want a 1001", group, err)
		}
	}
}

func TestCapsHaveFoldersWhateverTheirID(t *testing.T) {
	if got := MirrorFolder("device_control_cap_001"); got != "device_control_cap_001" {
		t.Errorf("the mirror's folder is %q", got)
	}
}

func FuzzMirrorFolder(f *testing.F) {
	for _, id := range []string{"climate", "..", "CON", "nul.txt", "a:b", "a%3Ab", "x.", " ", "e\u0301", strings.Repeat("🤖", 64)} {
		f.Add(id)
	}
	seen := make(map[string]string)
	f.Fuzz(func(t *testing.T, id string) {
		if protocol.CapID("").Rule().Check(id) != "" {
			return
		}
		folder := MirrorFolder(protocol.CapID(id))
		if reason := badPath(folder); reason != "" || strings.Contains(folder, "/") {
			t.Fatalf("the folder %q of Cap %q %s", folder, id, reason)
		}
		if other, ok := seen[folder]; ok && other != id {
			t.Fatalf("Caps %q and %q share the folder %q", id, other, folder)
		}
		seen[folder] = id
	})
}
