package seal

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/records/recordstest"
)

func newRing(t testing.TB, keys *recordstest.Memory[DataKey], master byte) *Ring {
	t.Helper()
	r, err := New(keys, bytes.Repeat([]byte{master}, MasterKeySize))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ready(t testing.TB) (*Ring, *recordstest.Memory[DataKey]) {
	t.Helper()
	keys := recordstest.New[DataKey]()
	r := newRing(t, keys, 1)
	if _, err := r.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, keys
}

func seal(t testing.TB, r *Ring, text, purpose string) []byte {
	t.Helper()
	sealed, err := r.Seal([]byte(text), purpose)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestWhatIsSealedOpensForItsPurposeOnly(t *testing.T) {
	r, _ := ready(t)
	sealed := seal(t, r, "secret", "a")
	if bytes.Contains(sealed, []byte("secret")) || bytes.Equal(sealed, seal(t, r, "secret", "a")) {
		t.Errorf("sealed as %q", sealed)
	}
	if plain, err := r.Open(sealed, "a"); err != nil || string(plain) != "secret" {
		t.Errorf("%q, %v", plain, err)
	}
	if _, err := r.Open(sealed, "b"); !errors.Is(err, ErrDamaged) {
		t.Errorf("opened for another purpose: %v", err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i]++
		if _, err := r.Open(changed, "a"); err == nil {
			t.Errorf("byte %d may be changed", i)
		}
		if _, err := r.Open(sealed[:i], "a"); err == nil {
			t.Errorf("it may be cut to %d bytes", i)
		}
	}
}

func TestKeysRotateWhileEverythingCanBeRead(t *testing.T) {
	r, keys := ready(t)
	other := newRing(t, keys, 1) // of another bridge
	old := seal(t, r, "old", "p")
	if _, changed, err := r.Reseal(old, "p"); changed || err != nil {
		t.Errorf("resealed without a new key: %v, %v", changed, err)
	}
	first, _ := KeyOf(old)
	second, err := r.Rotate(t.Context())
	if err != nil || second == first {
		t.Fatal(second, err)
	}
	fresh := seal(t, other, "new", "p")
	if id, _ := KeyOf(fresh); id != second {
		t.Errorf("the other bridge seals with %s, want %s", id, second)
	}
	for _, ring := range []*Ring{r, other} {
		for want, sealed := range map[string][]byte{"old": old, "new": fresh} {
			if plain, err := ring.Open(sealed, "p"); err != nil || string(plain) != want {
				t.Errorf("%q, %v, want %s", plain, err, want)
			}
		}
	}
	resealed, changed, err := other.Reseal(old, "p")
	if id, _ := KeyOf(resealed); !changed || err != nil || id != second {
		t.Errorf("resealed with %s: %v, %v", id, changed, err)
	}
	if plain, err := r.Open(resealed, "p"); err != nil || string(plain) != "old" {
		t.Errorf("%q, %v", plain, err)
	}
	if views := r.List(); len(views) != 2 || views[0].ID != second || !views[0].Seals || views[1].Seals {
		t.Errorf("listed as %+v", views)
	}
}

func TestAClockThatGoesBackDoesNotBringAnOldKeyBack(t *testing.T) {
	r, _ := ready(t)
	r.now = func() time.Time { return time.Unix(1000, 0) }
	second, err := r.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if id, _ := KeyOf(seal(t, r, "x", "")); id != second {
		t.Errorf("sealed with %s, want %s", id, second)
	}
}

func TestWithoutTheMasterKeyNothingOpens(t *testing.T) {
	r, keys := ready(t)
	sealed := seal(t, r, "secret", "p")
	thief := newRing(t, keys, 2)
	if _, err := thief.Check(t.Context()); !errors.Is(err, ErrOtherMaster) {
		t.Errorf("check: %v", err)
	}
	if _, err := thief.Open(sealed, "p"); !errors.Is(err, ErrOtherMaster) {
		t.Errorf("open: %v", err)
	}
	if _, err := New(keys, []byte("short")); err == nil {
		t.Error("a short master key is taken")
	}
	// Whoever has lost it begins anew; what was sealed before stays closed.
	if _, err := thief.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lost, err := thief.Check(t.Context()); lost != 1 || err != nil {
		t.Errorf("check after a new beginning: %d lost, %v", lost, err)
	}
	if plain, err := thief.Open(seal(t, thief, "new", "p"), "p"); err != nil || string(plain) != "new" {
		t.Errorf("%q, %v", plain, err)
	}
}

func TestADataKeyDoesNotStandInForAnother(t *testing.T) {
	r, keys := ready(t)
	sealed := seal(t, r, "secret", "p")
	id, _ := KeyOf(sealed)
	if _, err := r.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for other, k := range keys.All() {
		if other != id {
			if _, err := keys.Put(t.Context(), id, k); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := newRing(t, keys, 1).Open(sealed, "p"); !errors.Is(err, ErrOtherMaster) {
		t.Errorf("a key under another's name: %v", err)
	}
	keys.Lose(id)
	if _, err := r.Open(sealed, "p"); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("a key that is gone: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	r, _ := ready(f)
	f.Add(seal(f, r, "secret", "p"))
	f.Add([]byte{})
	f.Add([]byte{version})
	f.Fuzz(func(t *testing.T, sealed []byte) {
		plain, err := r.Open(sealed, "p")
		if err == nil && string(plain) != "secret" {
			t.Errorf("%x opens to %q", sealed, plain)
		}
	})
}
