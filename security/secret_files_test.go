package security

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/keyfile"
	"github.com/aibridge/aibridge/security/masterkey"
	"github.com/aibridge/aibridge/security/seal"
)

func (v SecretView) used() string {
	var all []string
	for _, one := range v.Versions {
		all = append(all, fmt.Sprint(one.Version, " ", one.State, " ", one.Uses))
	}
	return strings.Join(all, ", ")
}

// TestAKeyFileRotates rotates it at one of two bridges while a third waits to take
// over and a fourth is away, and retires the old version.
func TestAKeyFileRotates(t *testing.T) {
	h := newSecretHouse(t)
	tables := seal.Tables{Keys: h.dataKeys, Masters: recordstest.New[masterkey.Version](), Holders: recordstest.New[masterkey.Holder]()}
	b := h.start(t, &recordstest.Process{}) // makes the pepper
	h.dataKeys.Clear()
	store, err := seal.Open(h.dir, "b1", tables, slog.New(slog.DiscardHandler))
	if err == nil {
		err = store.Start(t.Context(), false, slog.New(slog.DiscardHandler))
	}
	if err == nil {
		err = store.File.Adopt(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	id, key, err := store.File.Active()
	if err != nil {
		t.Fatal(err)
	}
	away := t.TempDir()
	for name, content := range map[string][]byte{seal.KeyFile: key, PepperFile: b.Ring.peppers.file.secret} {
		if err := keyfile.Write(filepath.Join(away, name), content); err != nil {
			t.Fatal(err)
		}
	}
	fourth := func() *masterkey.File {
		f, err := masterkey.Open(masterkey.Options{Dir: away, Name: seal.KeyFile, Bridge: "b4", Versions: tables.Masters, Holders: tables.Holders})
		if err == nil {
			err = f.Adopt(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	fourth()
	bridges := []SecretBridge{{ID: "b1"}, {ID: "b3", Waits: true, Files: map[string]string{seal.KeyFile: id}}}
	metrics := prometheus.NewRegistry()
	s, err := NewSecretService(SecretOptions{
		Registerer: metrics, Ring: b.Ring, DataKeys: store.Ring, Bridges: func() []SecretBridge { return bridges },
		KeyFiles: []KeyFile{{Secret: SealKeySecret, File: store.File, What: "data_keys", Sealed: store.Wrapped, Follow: store.Follow}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := s.view(SealKeySecret); v.used() != "1 active map[bridges:3 data_keys:1]" {
		t.Errorf("at first: %s", v.used())
	}
	s.Confirm = func(context.Context, SecretName, string) []string { return []string{"b2"} }
	if _, err := s.Rotate(t.Context(), by(admin), SecretRotateParams{SealKeySecret}); protocol.CodeOf(err) != protocol.InvalidState || !strings.Contains(err.Error(), "b2") {
		t.Errorf("rotated without b2: %v", err)
	}
	s.Confirm = nil
	made, err := s.Rotate(t.Context(), by(admin), SecretRotateParams{SealKeySecret})
	if err != nil || made.Version != "2" || made.Resealed != 1 || made.used() != "2 active map[bridges:1 data_keys:1], 1 open map[bridges:2]" {
		t.Fatalf("rotated: %+v, %v", made, err)
	}

	retire := func(gone ...string) error {
		_, err := s.Retire(t.Context(), by(admin), SecretRetireParams{Secret: SealKeySecret, Version: "1", Gone: gone})
		return err
	}
	for what, test := range map[string]struct {
		gone []string
		want string
	}{
		"while two lack the new one": {nil, "is all that b3, b4 has"},
		"with one that is there":     {[]string{"b3"}, `bridge "b3" is there`},
		"while another lacks it":     {[]string{"b4"}, "is all that b3 has"},
	} {
		if err := retire(test.gone...); protocol.CodeOf(err) != protocol.InvalidState || !strings.Contains(err.Error(), test.want) {
			t.Errorf("retired %s: %v", what, err)
		}
	}
	bridges = bridges[:1] // the third has ended
	if err := retire("b4"); protocol.CodeOf(err) != protocol.InvalidState || !strings.Contains(err.Error(), "less than") {
		t.Errorf("retired at once: %v", err)
	}
	fourth() // comes back
	if v := s.view(SealKeySecret); v.used() != "2 active map[bridges:2 data_keys:1], 1 open map[]" {
		t.Errorf("with all bridges: %s", v.used())
	}
	if n, err := testutil.GatherAndCount(metrics, "aibridge_secret_versions", "aibridge_secret_active_timestamp_seconds"); err != nil || n != 3*5+2 {
		t.Errorf("%d metrics, %v", n, err)
	}
	if err := s.unknownVersion(t); err != nil {
		t.Error(err)
	}
	if all, err := s.Status(t.Context(), by(admin), SecretStatusParams{}); err != nil || len(all.Secrets) != 3 || all.Secrets[2].Secret != SealKeySecret {
		t.Errorf("status: %+v, %v", all, err)
	}
}

// unknownVersion is an error unless a version that is not there is not found.
func (s *SecretService) unknownVersion(t *testing.T) error {
	_, err := s.Retire(t.Context(), by(admin), SecretRetireParams{Secret: SealKeySecret, Version: "7"})
	if protocol.CodeOf(err) == protocol.NotFound {
		return nil
	}
	return fmt.Errorf("version 7 is retired: %w", err)
}
