package pki

import (
	"bytes"
	"crypto"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/masterkey"
)

func issues(w *world) error {
	_, err := w.ask(root, "cert.issue", lighting(csrOf(w.t, ecdsaKey(w.t))))
	return err
}

func TestKeysAreSealedAndOpenOnlyWithWhatSealedThem(t *testing.T) {
	passphrase := func(text string) func(*Options) { return func(o *Options) { o.Passphrase = []byte(text) } }
	elsewhere := func(o *Options) { o.Dir = t.TempDir() }
	for name, test := range map[string]struct {
		first, second []func(*Options)
		opens         bool
	}{
		"the key file":             {nil, nil, true},
		"without the key file":     {nil, []func(*Options){elsewhere}, false},
		"the passphrase":           {[]func(*Options){passphrase("open sesame")}, []func(*Options){passphrase("open sesame"), elsewhere}, true},
		"another passphrase":       {[]func(*Options){passphrase("open sesame")}, []func(*Options){passphrase("open barley")}, false},
		"without the passphrase":   {[]func(*Options){passphrase("open sesame")}, nil, false},
		"a passphrase from now on": {nil, []func(*Options){passphrase("open sesame")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.first...)
			h := w.hold()
			second := w.another(test.second...)
			if err := second.Valid(h.serial); err != nil {
				t.Errorf("what was issued does not count: %v", err)
			}
			if err := issues(second); (err == nil) != test.opens || !test.opens && protocol.CodeOf(err) != protocol.InvalidState {
				t.Errorf("issuing: %v", err)
			}
			if _, err := second.ServerCertificate(nil); (err == nil) != test.opens {
				t.Errorf("the server certificate: %v", err)
			}
		})
	}
}

func TestAPassphraseThatIsNewSealsTheKeysAnew(t *testing.T) {
	w := newWorld(t)
	if method := sealedBy(w); method != byFile {
		t.Fatalf("sealed by %s", method)
	}
	secret := func(o *Options) { o.Passphrase = []byte("open sesame") }
	w.another(secret)
	if method := sealedBy(w); method != byPassphrase {
		t.Fatalf("sealed by %s", method)
	}
	if err := os.Remove(filepath.Join(w.opts.Dir, KeyFile)); err != nil {
		t.Fatal(err)
	}
	if err := issues(w.another(secret)); err != nil {
		t.Error(err)
	}
}

func sealedBy(w *world) string {
	stored, _, _ := w.state.authorities.Get(hierarchyKey)
	return stored.CAs[len(stored.CAs)-1].Key.Method
}

func TestAKeyIsNotPutInPlaceOfAnother(t *testing.T) {
	w := newWorld(t)
	stored, revision, _ := w.state.authorities.Get(hierarchyKey)
	swapped := *stored
	swapped.CAs = append([]CA(nil), stored.CAs...)
	n := len(swapped.CAs)
	swapped.CAs[n-1].Key, swapped.CAs[n-2].Key = swapped.CAs[n-2].Key, swapped.CAs[n-1].Key
	if _, err := w.state.authorities.Update(t.Context(), hierarchyKey, &swapped, revision); err != nil {
		t.Fatal(err)
	}
	second := w.another()
	if _, err := second.ask(root, "cert.issue", object{"authority": swapped.CAs[n-1].Name, "skill_id": "x", "csr": csrOf(t, ecdsaKey(t))}); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("issued with another authority's key: %v", err)
	}
}

func TestTheKeyFileIsForItsOwnerOnlyAndNoKeyIsStoredInTheOpen(t *testing.T) {
	w := newWorld(t)
	info, err := os.Stat(filepath.Join(w.opts.Dir, KeyFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	ca, err := os.ReadFile(filepath.Join(w.opts.Dir, CAFile))
	if err != nil || !strings.HasPrefix(string(ca), "-----BEGIN CERTIFICATE-----") || strings.Contains(string(ca), "PRIVATE") {
		t.Errorf("%s, %v", ca, err)
	}
}

func TestKeysMayBeHeldElsewhere(t *testing.T) {
	key := ecdsaKey(t)
	other := ecdsaKey(t)
	signers := func(key crypto.Signer) func(*Options) {
		return func(o *Options) { o.Signers = map[string]crypto.Signer{"operator": key} }
	}
	w := newWorld(t, signers(key))
	if err := issues(w); err != nil {
		t.Fatal(err)
	}
	for _, ca := range func() []CA { s, _, _ := w.state.authorities.Get(hierarchyKey); return s.CAs }() {
		if (ca.Key == nil) != (ca.Name == "operator") {
			t.Errorf("the key of %s is in the wrong place", ca.Name)
		}
	}
	if err := issues(w.another(signers(key))); err != nil {
		t.Error(err)
	}
	if err := issues(w.another()); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("issued without the key: %v", err)
	}
	o := w.opts
	signers(other)(&o)
	if _, err := Open(t.Context(), o); err == nil {
		t.Error("another key was taken for it")
	}
}

func TestAuthoritiesMayHaveEd25519Keys(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.KeyType = Ed25519 })
	h := w.hold()
	if who, err := w.dial(w.listen(), &h.tls); err != nil || who != "lighting" {
		t.Errorf("%q, %v", who, err)
	}
}

func TestBridgesThatStartTogetherHaveTheSameAuthorities(t *testing.T) {
	w := newWorld(t)
	second := w.another()
	if string(second.Root()) != string(w.Root()) {
		t.Error("two roots")
	}
}

func TestARegistrationThatIsDamagedIsNoCertificate(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]*Certificate{
		"garbage":          {Serial: "1111111111111111", Authority: Operator, DER: []byte("garbage")},
		"another's serial": {Serial: "2222222222222222", Authority: Operator, DER: w.hold().cert.Raw},
		"no authority":     {Serial: "3333333333333333", Authority: "root", DER: w.hold().cert.Raw},
	} {
		if _, err := w.state.certificates.Create(t.Context(), string(c.Serial), c); err != nil {
			t.Fatal(err)
		}
		if protocol.CodeOf(w.Valid(c.Serial)) != protocol.CertificateUnknown {
			t.Errorf("%s: %v", name, w.Valid(c.Serial))
		}
	}
}

// A bridge opens the authorities with whichever version of the key file it has,
// whenever the one that rotates it dies.
func TestTheKeyFileRotatesUnderTheAuthorities(t *testing.T) {
	w := newWorld(t)
	old, err := os.ReadFile(filepath.Join(w.opts.Dir, KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	away := func(o *Options) {
		o.Dir = t.TempDir()
		for name, content := range map[string][]byte{KeyFile: old, masterkey.PepperFile: []byte("pepper")} {
			if err := os.WriteFile(filepath.Join(o.Dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(w.opts.Dir, masterkey.PepperFile), []byte("pepper"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := func(step string) {
		t.Helper()
		for what, bridge := range map[string]*world{"the one that runs": w, "one that starts": w.another(), "one that was away": w.another(away)} {
			if err := issues(bridge); err != nil {
				t.Errorf("%s: %s: %v", step, what, err)
			}
		}
	}
	if sealed := w.Sealed(); sealed[w.opts.KeyFile.First()] != 5 {
		t.Errorf("at first: %v", sealed)
	}
	version, err := w.opts.KeyFile.Stage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all("staged")
	if err := w.opts.KeyFile.Activate(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	w.state.authorities.BreakNext(1)
	if _, err := w.FollowKeyFile(t.Context()); err == nil || sealedBy(w) != byFile {
		t.Errorf("sealed anew in a store that is away: %v", err)
	}
	if err := issues(w.another(away)); err != nil { // which seals them anew at its start
		t.Errorf("active: %v", err)
	}
	for round := range 2 {
		if n, err := w.FollowKeyFile(t.Context()); n != 0 || err != nil {
			t.Errorf("round %d: sealed %d anew, %v", round, n, err)
		}
	}
	active, _, err := w.opts.KeyFile.Active()
	if sealed := w.Sealed(); err != nil || len(sealed) != 1 || sealed[active] != 5 {
		t.Errorf("in the end: %v, %v", sealed, err)
	}
	all("in the end")
	if now, err := os.ReadFile(filepath.Join(w.opts.Dir, KeyFile)); err != nil || bytes.Equal(now, old) {
		t.Errorf("the file is the old one: %v", err)
	}
	version, err = w.opts.KeyFile.Stage(t.Context())
	if err == nil {
		err = w.opts.KeyFile.Activate(t.Context(), version)
	}
	if n, failed := w.FollowKeyFile(t.Context()); n != 5 || err != nil || failed != nil {
		t.Errorf("rotated again: %d, %v, %v", n, err, failed)
	}
}
