package starter_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/sdk/starter"
)

func TestEveryLanguageWritesAFolder(t *testing.T) {
	for _, l := range starter.Languages() {
		t.Run(l.Name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "lamp-1")
			written, err := l.Write(folder, starter.Device{ID: "lamp-1", Version: "v1.2.3"})
			if err != nil || len(written) < 3 {
				t.Fatalf("%v %v", written, err)
			}
			for _, name := range written {
				if strings.HasSuffix(name, "/") {
					continue
				}
				text, err := os.ReadFile(filepath.Join(folder, name))
				if err != nil || strings.Contains(string(text), "{{") || strings.Contains(name, "tmpl") {
					t.Errorf("%s: %v\n%s", name, err, text)
				}
			}
			if readme, err := os.ReadFile(filepath.Join(folder, "README.md")); err != nil || !strings.Contains(string(readme), "skill invoke lamp-1 set_level params.level=40") {
				t.Errorf("README: %v\n%s", err, readme)
			}
			if _, err := l.Write(folder, starter.Device{ID: "lamp-1"}); err == nil {
				t.Error("a folder that is there is written over")
			}
		})
	}
}

func TestNamesThatFitNowhereAreRefused(t *testing.T) {
	python, err := starter.Find("python")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []protocol.AgentID{"", "Lamp", "1lamp", "../lamp", "a b", "lamp.1", `lamp"`, "-x", protocol.AgentID(strings.Repeat("a", 65))} {
		folder := filepath.Join(t.TempDir(), "new")
		if _, err := python.Write(folder, starter.Device{ID: id}); protocol.CodeOf(err) != protocol.InvalidParameter {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("%q left a folder", id)
		}
	}
	if _, err := starter.Find("rust"); err == nil || !strings.Contains(err.Error(), "python") {
		t.Errorf("rust: %v", err)
	}
}
