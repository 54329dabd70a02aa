package clusterkey

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/pki"
	"github.com/aibridge/aibridge/security/seal"
)

func TestAKeyGivesEachBridgeTheSameSecrets(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(first, security.PepperFile), bytes.Repeat([]byte{7}, secretBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := New(first)
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "home.key")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{first, second, second} { // again changes nothing
		if err := key.Install(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range Files {
		a, _ := os.ReadFile(filepath.Join(first, file))
		b, _ := os.ReadFile(filepath.Join(second, file))
		if len(a) != secretBytes || !bytes.Equal(a, b) || bytes.Equal(a, make([]byte, secretBytes)) {
			t.Errorf("%s is %x and %x", file, a, b)
		}
		if info, err := os.Stat(filepath.Join(second, file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	other, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Install(first); err == nil || !strings.Contains(err.Error(), "has a pepper of its own") {
		t.Errorf("another key: %v", err)
	}
}

// A key that is older than the files of the bridges is as good as before, and is
// made anew of these files.
func TestAKeyIsMadeAnewOfWhatABridgeHas(t *testing.T) {
	key, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	dir, stranger := t.TempDir(), t.TempDir()
	if err := key.Install(dir); err != nil {
		t.Fatal(err)
	}
	rotated := bytes.Repeat([]byte{9}, secretBytes)
	if err := os.WriteFile(filepath.Join(dir, seal.KeyFile), rotated, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := key.Install(dir); err != nil {
		t.Errorf("the old key, after a rotation: %v", err)
	}
	anew, err := key.Renew(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(anew.Routes, key.Routes) || !bytes.Equal(anew.Secrets[seal.KeyFile], rotated) || !bytes.Equal(anew.Secrets[pki.KeyFile], key.Secrets[pki.KeyFile]) {
		t.Error("the key has other secrets than the bridge")
	}
	other, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Install(stranger); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{stranger, t.TempDir()} {
		if _, err := key.Renew(folder); err == nil {
			t.Error("a key is made of another cluster's folder, or of none")
		}
	}
}

func TestAFileThatIsNoKeyIsRefusedWithoutTellingIt(t *testing.T) {
	key, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	good, err := key.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ text, want string }{
		"empty":         {"", "must be YAML with routes and secrets"},
		"something":     {"s3cret", "must be YAML with routes and secrets"},
		"unknown field": {string(good) + "s3cret: 1\n", "must be YAML with routes and secrets"},
		"no base64":     {"routes: s3cret-\n", "routes is not base64"},
		"short":         {"routes: c2hvcnQ=\n", "routes has 5 bytes instead of 32"},
		"no secrets":    {strings.Split(string(good), "secrets:")[0], "secrets.pepper has 0 bytes instead of 32"},
		"one too many":  {string(good) + "  more: c2hvcnQ=\n", "secrets has others than pepper, ca.key, seal.key"},
		"too large":     {strings.Repeat("#", maxFile+1), "is larger than 64 KiB"},
	} {
		_, err := Decode([]byte(test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if _, err := Decode(good); err != nil {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	key, err := New("")
	if err != nil {
		f.Fatal(err)
	}
	good, err := key.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("routes: [a]\nsecrets: {pepper: !!binary x}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		key, err := Decode(text)
		if err != nil {
			return
		}
		again, err := key.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if same, err := Decode(again); err != nil || !bytes.Equal(same.Routes, key.Routes) {
			t.Errorf("%q became %q: %v", text, again, err)
		}
	})
}
