package security

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
)

func openRing(t *testing.T, dir string, keys records.Table[Key]) *Keyring {
	t.Helper()
	ring, err := OpenKeyring(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func adminKey(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, AdminKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func TestTheFirstStartMakesOneAdministratorKey(t *testing.T) {
	dir, keys := t.TempDir(), recordstest.New[Key]()
	ring := openRing(t, dir, keys)
	for start := range 3 {
		made, err := ring.EnsureAdministrator(t.Context(), dir, time.Now())
		if err != nil || made != (start == 0) {
			t.Fatalf("start %d: made %v, %v", start, made, err)
		}
	}
	if keys.Len() != 1 {
		t.Fatalf("%d keys on the ring", keys.Len())
	}
	for _, name := range []string{AdminKeyFile, PepperFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	who, ok := openRing(t, dir, keys).Recognise(adminKey(t, dir))
	if !ok || !who.HasRole(protocol.RoleAdministrator) {
		t.Errorf("recognised %v, %v", who, ok)
	}
	for id, key := range keys.All() {
		if strings.Contains(adminKey(t, dir), string(key.MAC)) || who.Credential != id {
			t.Error("the ring keeps the secret, or the principal does not name its credential")
		}
	}
}

func TestACrashBeforeTheKeyIsStoredIsMadeGoodAtTheNextStart(t *testing.T) {
	dir := t.TempDir()
	ring := openRing(t, dir, recordstest.New[Key]())
	if _, err := ring.EnsureAdministrator(t.Context(), dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	before := adminKey(t, dir)
	keys := recordstest.New[Key]() // the file was written, the store was not
	ring = openRing(t, dir, keys)
	if made, err := ring.EnsureAdministrator(t.Context(), dir, time.Now()); err != nil || !made {
		t.Fatalf("made %v, %v", made, err)
	}
	if _, ok := ring.Recognise(before); !ok || adminKey(t, dir) != before {
		t.Error("the key in the file is not the one on the ring")
	}
}

func TestOnlyTheExactKeyIsRecognised(t *testing.T) {
	dir, keys := t.TempDir(), recordstest.New[Key]()
	ring := openRing(t, dir, keys)
	if _, err := ring.EnsureAdministrator(t.Context(), dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	key := adminKey(t, dir)
	id, secret, _ := parseKey(key)
	_, other, _ := newKey()
	for name, text := range map[string]string{
		"empty":            "",
		"no prefix":        id + "." + secret,
		"no secret":        "abk_" + id,
		"empty secret":     "abk_" + id + ".",
		"another secret":   "abk_" + id + "." + other,
		"another id":       "abk_" + strings.Repeat("0", keyIDLength) + "." + secret,
		"truncated":        key[:len(key)-1],
		"longer":           key + "A",
		"upper case id":    "abk_" + strings.ToUpper(id) + "x." + secret,
		"padding":          key + "=",
		"white space":      key + " ",
		"a swapped half":   "abk_" + secret[:keyIDLength] + "." + secret,
		"not base64":       "abk_" + id + "." + strings.Repeat("*", secretLength),
		"trailing newline": key + "\n",
	} {
		if who, ok := ring.Recognise(text); ok || who != nil {
			t.Errorf("%s: recognised %v", name, who)
		}
	}
	if _, ok := openRing(t, t.TempDir(), keys).Recognise(key); ok {
		t.Error("recognised under another pepper")
	}
}

func FuzzParseKey(f *testing.F) {
	_, _, key := newKey()
	f.Add(key)
	f.Add("abk_.")
	f.Add("abk_0123456789abcdef." + strings.Repeat("A", secretLength))
	f.Fuzz(func(t *testing.T, text string) {
		if id, secret, ok := parseKey(text); ok && keyPrefix+id+"."+secret != text {
			t.Errorf("%q parses as another key", text)
		}
	})
}

func BenchmarkRecognise(b *testing.B) {
	ring, err := OpenKeyring(b.TempDir(), recordstest.New[Key]())
	if err != nil {
		b.Fatal(err)
	}
	_, _, key := newKey()
	b.ReportAllocs()
	for b.Loop() {
		ring.Recognise(key)
	}
}

func TestARestoreWithoutThePepperGetsANewAdministratorKey(t *testing.T) {
	keys := recordstest.New[Key]()
	old := t.TempDir()
	if _, err := openRing(t, old, keys).EnsureAdministrator(t.Context(), old, time.Now()); err != nil {
		t.Fatal(err)
	}
	for name, keepFile := range map[string]bool{"nothing was copied": false, "the key file was copied": true} {
		dir := t.TempDir()
		if keepFile {
			if err := os.WriteFile(filepath.Join(dir, AdminKeyFile), []byte(adminKey(t, old)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ring := openRing(t, dir, keys)
		if made, err := ring.EnsureAdministrator(t.Context(), dir, time.Now()); err != nil || !made {
			t.Fatalf("%s: made %v, %v", name, made, err)
		}
		if _, ok := ring.Recognise(adminKey(t, dir)); !ok {
			t.Errorf("%s: nobody gets in", name)
		}
	}
}

func mustWrite(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
