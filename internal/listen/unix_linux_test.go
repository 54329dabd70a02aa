package listen

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAUnixSocketIsNeverWiderThanItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mqtt.sock")
	l, err := bindUnix(t.Context(), path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if file, err := os.Stat(path); err != nil || file.Mode().Perm()&^0o600 != 0 {
		t.Errorf("before its mode is set it is %v, %v", file.Mode(), err)
	}
}
