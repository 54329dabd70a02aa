package seal

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/records/recordstest"
	"github.com/aibridge/aibridge/security/masterkey"
)

func TestABridgeStartsWithTheMasterKeyThatItHas(t *testing.T) {
	for name, test := range map[string]struct {
		file   func(path, old string) error // what becomes of the master key before the start
		shared bool
		fails  bool
		opens  bool // what was sealed before
		seals  bool
		keeps  bool // the file
	}{
		"its own":              {file: func(path, old string) error { return os.Rename(old, path) }, opens: true, seals: true, keeps: true},
		"its own, shared":      {file: func(path, old string) error { return os.Rename(old, path) }, shared: true, opens: true, seals: true, keeps: true},
		"lost with the backup": {file: func(string, string) error { return nil }, seals: true, keeps: true},
		"that of others":       {file: func(string, string) error { return nil }, shared: true},
		"changed": {file: func(path, _ string) error {
			return os.WriteFile(path, bytes.Repeat([]byte{7}, MasterKeySize), 0o600)
		}, fails: true, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, before := t.TempDir(), t.TempDir()
			_, keys := ready(t)
			for id := range keys.All() {
				keys.Lose(id)
			}
			tables := Tables{keys, recordstest.New[masterkey.Version](), recordstest.New[masterkey.Holder]()}
			first, err := Open(before, "", tables, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := first.Start(t.Context(), test.shared, slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			sealed := seal(t, first.Ring, "secret", "p")
			path := filepath.Join(dir, KeyFile)
			if err := test.file(path, filepath.Join(before, KeyFile)); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir, "", tables, nil)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			err = s.Start(t.Context(), test.shared, slog.New(slog.NewTextHandler(&log, nil)))
			if (err != nil) != test.fails || err != nil && !strings.Contains(err.Error(), KeyFile) {
				t.Fatalf("started: %v", err)
			}
			if _, err := s.Open(sealed, "p"); (err == nil) != test.opens {
				t.Errorf("opened: %v", err)
			}
			if _, err := s.Seal([]byte("new"), "p"); (err == nil) != test.seals {
				t.Errorf("sealed: %v", err)
			}
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) == test.keeps {
				t.Errorf("the file: %v", err)
			}
			if told := log.Len() > 0; told == (test.opens || test.fails) {
				t.Errorf("the log has %q", log.String())
			}
		})
	}
}

func TestAMasterKeyThatIsCutIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, KeyFile), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, keys := ready(t)
	if _, err := Open(dir, "", Tables{Keys: keys}, nil); err == nil || !strings.Contains(err.Error(), KeyFile) {
		t.Errorf("opened: %v", err)
	}
}
