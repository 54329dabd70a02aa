package security

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aibridge/aibridge/internal/records"
	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/seal"
)

// A secretHouse is the state of bridges that share it, and their clock.
type secretHouse struct {
	dir      string // with the files that the bridges share
	keys     *recordstest.Memory[Key]
	uses     *recordstest.Memory[KeyUse]
	peppers  *recordstest.Memory[PepperRecord]
	dataKeys *recordstest.Memory[seal.DataKey]
	clock    time.Time
	stamps   [][]byte
}

// A secretBridge is a process of them.
type secretBridge struct {
	*KeyService
	secrets *SecretService
	seals   *seal.Ring
}

func newSecretHouse(t testing.TB) *secretHouse {
	return &secretHouse{
		dir: t.TempDir(), clock: time.Now(), keys: recordstest.New[Key](), uses: recordstest.New[KeyUse](),
		peppers: recordstest.New[PepperRecord](), dataKeys: recordstest.New[seal.DataKey](),
	}
}

// start starts a bridge, which may be killed by its process.
func (h *secretHouse) start(t testing.TB, p *recordstest.Process) *secretBridge {
	t.Helper()
	seals, err := seal.New(recordstest.Mortal[seal.DataKey]{Memory: h.dataKeys, Name: "data key", Process: p}, bytes.Repeat([]byte{1}, seal.MasterKeySize))
	if err != nil {
		t.Fatal(err)
	}
	keys := recordstest.Mortal[Key]{Memory: h.keys, Name: "key", Process: p}
	ring, err := OpenKeyring(h.dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	ring.now = func() time.Time { return h.clock }
	ring.Rotate(recordstest.Mortal[PepperRecord]{Memory: h.peppers, Name: "pepper", Process: p}, seals)
	b := &secretBridge{seals: seals, KeyService: NewKeyService(KeyOptions{Ring: ring, Index: IndexKeys(keys), Uses: h.uses, BridgeID: "aibridge"})}
	b.secrets, err = NewSecretService(SecretOptions{Ring: ring, DataKeys: seals, Stamps: map[string]func() iter.Seq[[]byte]{
		"join_tokens": func() iter.Seq[[]byte] { return slices.Values(h.stamps) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := seals.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *secretBridge) make(t testing.TB, p KeyCreateParams) KeyCreateResult {
	t.Helper()
	made, err := b.Create(t.Context(), by(admin), p)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (b *secretBridge) rotate(t testing.TB, name SecretName) SecretRotateResult {
	t.Helper()
	made, err := b.secrets.Rotate(t.Context(), by(admin), SecretRotateParams{name})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (b *secretBridge) retire(t testing.TB, version string) (SecretView, error) {
	t.Helper()
	return b.secrets.Retire(t.Context(), by(admin), SecretRetireParams{Secret: PepperSecret, Version: version})
}

// knows reports whether a key counts, and its access key if it has one.
func (b *secretBridge) knows(k KeyCreateResult) bool {
	who, ok := b.Ring.Recognise(k.Secret)
	if ok = ok && who.Credential == k.ID; k.AccessKey == "" {
		return ok
	}
	_, signed := b.Ring.recogniseAccess(k.AccessKey, func(secret string) bool { return secret == k.AccessSecret })
	return ok && signed
}

func (v SecretView) states() string {
	var all []string
	for _, one := range v.Versions {
		text := one.Version + " " + string(one.State)
		for _, kind := range []string{"api_keys", "join_tokens"} {
			if n := one.Uses[kind]; n > 0 {
				text += fmt.Sprintf(" %d %s", n, kind)
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestThePepperRotatesUnderKeysThatCount(t *testing.T) {
	h := newSecretHouse(t)
	one, other := h.start(t, &recordstest.Process{}), h.start(t, &recordstest.Process{})
	before := []KeyCreateResult{one.make(t, KeyCreateParams{Principal: "lamp"}), one.make(t, KeyCreateParams{Principal: "backup", S3: true})}
	join := one.Ring.Stamp("join", "id", "secret")
	h.stamps = [][]byte{join}

	if made := one.rotate(t, PepperSecret); made.Version != "2" || made.states() != "2 active, 1 open 2 api_keys 1 join_tokens" {
		t.Errorf("rotated: %s", made.states())
	}
	after := append(slices.Clone(before), other.make(t, KeyCreateParams{Principal: "fan", S3: true}))
	if _, err := one.retire(t, "1"); protocol.CodeOf(err) != protocol.InvalidState || !strings.Contains(err.Error(), "still needed") {
		t.Errorf("retired while keys need it: %v", err)
	} else if ids := protocol.AsError(err).Details["key_ids"]; fmt.Sprint(ids) != fmt.Sprint(slices.Sorted(slices.Values([]string{before[0].ID, before[1].ID}))) {
		t.Errorf("the refusal names %v", ids)
	}
	for round := range 2 { // shown once, all keys are under the newest
		for _, b := range []*secretBridge{one, other} {
			for _, k := range after {
				if !b.knows(k) {
					t.Errorf("round %d: %s is not recognised", round, k.Principal)
				}
			}
			b.storeRenewals(t.Context())
		}
	}
	if v := one.secrets.view(PepperSecret); v.states() != "2 active 3 api_keys, 1 open 1 join_tokens" {
		t.Errorf("after all were shown: %s", v.states())
	}
	if !other.Ring.Stamped(join, "join", "id", "secret") || other.Ring.Stamped(join, "join", "id", "other") {
		t.Error("the join token does not count any more")
	}
	fresh := other.Ring.Stamp("join", "id", "secret")
	if !one.Ring.Stamped(fresh, "join", "id", "secret") || one.Ring.Stamped(fresh[1:], "join", "id", "secret") || bytes.Equal(fresh, join) {
		t.Error("a new join token does not count, or is not under the new pepper")
	}
	h.stamps = [][]byte{fresh}
	if _, err := one.retire(t, "1"); protocol.CodeOf(err) != protocol.InvalidState || !strings.Contains(err.Error(), "active for less") {
		t.Errorf("retired at once: %v", err)
	}
	h.clock = h.clock.Add(settle)
	for range 2 { // once is as good as twice
		if v, err := one.retire(t, "1"); err != nil || v.states() != "2 active 3 api_keys 1 join_tokens, 1 retired" {
			t.Errorf("retired: %s, %v", v.states(), err)
		}
	}
	if other.Ring.Stamped(join, "join", "id", "secret") {
		t.Error("something is recognised by a version that is retired")
	}
	again := h.start(t, &recordstest.Process{})
	for _, b := range []*secretBridge{one, other, again} {
		for _, k := range after {
			if !b.knows(k) {
				t.Errorf("%s is not recognised after all", k.Principal)
			}
		}
	}
}

func TestVersionsThatAreNeededAreNotRetired(t *testing.T) {
	h := newSecretHouse(t)
	b := h.start(t, &recordstest.Process{})
	for version, want := range map[string]protocol.Code{"1": protocol.InvalidState, "2": protocol.NotFound, "x": protocol.NotFound} {
		if _, err := b.retire(t, version); protocol.CodeOf(err) != want {
			t.Errorf("%s: %v", version, err)
		}
	}
	b.secrets.Confirm = func(context.Context, SecretName, string) []string { return []string{"b3"} }
	for range 2 { // it is the same version that waits
		if _, err := b.secrets.Rotate(t.Context(), by(admin), SecretRotateParams{PepperSecret}); protocol.CodeOf(err) != protocol.InvalidState || !strings.Contains(err.Error(), "b3") {
			t.Errorf("rotated without b3: %v", err)
		}
	}
	if v := b.secrets.view(PepperSecret); v.states() != "2 staged, 1 active" {
		t.Errorf("while b3 is away: %s", v.states())
	}
	if _, err := b.retire(t, "2"); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("a staged version is retired: %v", err)
	}
	b.secrets.Confirm = func(context.Context, SecretName, string) []string { return nil }
	if made := b.rotate(t, PepperSecret); made.states() != "2 active, 1 open" {
		t.Errorf("once b3 is back: %s", made.states())
	}
	key := b.rotate(t, DataKeySecret)
	if len(key.Versions) != 2 || key.Versions[0].State != SecretActive || key.Resealed != 1 { // the pepper
		t.Errorf("data keys: %+v", key)
	}
	if _, err := b.secrets.Retire(t.Context(), by(admin), SecretRetireParams{Secret: DataKeySecret, Version: key.Versions[1].Version}); protocol.CodeOf(err) != protocol.InvalidState {
		t.Errorf("a data key is retired: %v", err)
	}
	operator := by(&protocol.Principal{ID: "anna", Roles: []string{protocol.RoleOperator}})
	_, status := b.secrets.Status(t.Context(), operator, SecretStatusParams{})
	_, rotate := b.secrets.Rotate(t.Context(), operator, SecretRotateParams{PepperSecret})
	_, retire := b.secrets.Retire(t.Context(), operator, SecretRetireParams{Secret: PepperSecret, Version: "1"})
	for what, err := range map[string]error{"status": status, "rotate": rotate, "retire": retire} {
		if protocol.CodeOf(err) != protocol.PermissionDenied {
			t.Errorf("%s by an operator: %v", what, err)
		}
	}
	if all, err := b.secrets.Status(t.Context(), by(admin), SecretStatusParams{}); err != nil || len(all.Secrets) != 2 || all.Secrets[1].Secret != PepperSecret {
		t.Errorf("status: %+v, %v", all, err)
	}
}

// Whenever the process dies, every key counts at the others and at the next one, and
// the next rotation goes on.
func TestARotationThatDiesCostsNoKey(t *testing.T) {
	for after := range 2 {
		for dies := 1; ; dies++ {
			h := newSecretHouse(t)
			other := h.start(t, &recordstest.Process{})
			keys := []KeyCreateResult{other.make(t, KeyCreateParams{Principal: "lamp"}), other.make(t, KeyCreateParams{Principal: "backup", S3: true})}
			life := &recordstest.Process{Dies: dies, After: after == 1}
			work := func(b *secretBridge) error {
				for _, secret := range []SecretName{PepperSecret, DataKeySecret, PepperSecret} {
					if _, err := b.secrets.Rotate(t.Context(), by(admin), SecretRotateParams{secret}); err != nil {
						return err
					}
					for _, k := range keys {
						b.knows(k)
					}
					b.storeRenewals(t.Context())
					h.clock = h.clock.Add(settle)
				}
				for version := range b.secrets.view(PepperSecret).Versions {
					if _, err := b.retire(t, fmt.Sprint(version)); err != nil && version > 0 {
						return err
					}
				}
				return nil
			}
			err := work(h.start(t, life))
			dead, at := life.Dead()
			if !dead {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			next := h.start(t, &recordstest.Process{})
			for _, b := range []*secretBridge{other, next} {
				for _, k := range keys {
					if !b.knows(k) {
						t.Errorf("killed at %s (%d): %s is not recognised", at, dies, k.Principal)
					}
				}
			}
			if err := work(next); err != nil {
				t.Errorf("killed at %s (%d): the next rotation: %v", at, dies, err)
			}
			for _, k := range keys {
				if !other.knows(k) || !next.knows(k) {
					t.Errorf("killed at %s (%d): %s is not recognised in the end", at, dies, k.Principal)
				}
			}
		}
	}
}

func TestWithoutTheMasterKeyThePepperOfTheFileCounts(t *testing.T) {
	h := newSecretHouse(t)
	b := h.start(t, &recordstest.Process{})
	old := b.make(t, KeyCreateParams{Principal: "lamp"})
	b.rotate(t, PepperSecret)
	lost := b.make(t, KeyCreateParams{Principal: "fan"})
	for id := range h.dataKeys.All() {
		h.dataKeys.Lose(id)
	}
	h.peppers.Restart()
	b = h.start(t, &recordstest.Process{})
	fresh := b.make(t, KeyCreateParams{Principal: "door"})
	if !b.knows(old) || b.knows(lost) || !b.knows(fresh) {
		t.Errorf("recognised: under the file %v, under the lost one %v, new %v", b.knows(old), b.knows(lost), b.knows(fresh))
	}
	if v := b.secrets.view(PepperSecret); v.states() != "2 unreadable 1 api_keys, 1 active 2 api_keys" {
		t.Errorf("status: %s", v.states())
	}
}

func TestARenewedKeyGivesWhatItGave(t *testing.T) {
	h := newSecretHouse(t)
	b := h.start(t, &recordstest.Process{})
	made := b.make(t, KeyCreateParams{Principal: "backup", S3: true})
	b.rotate(t, PepperSecret)
	before, _, _ := h.keys.Get(made.ID)
	recordstest.Survives(t, records.Table[Key](h.keys), made.ID, func() {
		b.renew(before, b.Ring.peppers.active(), []byte("anew"))
		b.storeRenewals(t.Context())
	}, "MAC", "Pepper", "AccessBox", "-Revoked", "-Expires")
	after, _, _ := h.keys.Get(made.ID)
	if revoked := *after; !before.SameRights(before) || before.SameRights(nil) {
		t.Error("a key has not the rights of itself")
	} else if revoked.Revoked = h.clock; after.SameRights(&revoked) {
		t.Error("a revoked key has the rights that it had")
	}
}
