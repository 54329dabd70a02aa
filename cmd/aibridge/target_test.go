package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
)

// Another bridge is not shown the administrator's key of the one on this machine,
// unless somebody says that the two belong together.
func TestTheAdministratorsKeyStaysAtHome(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{app.AdminKeyFile: "abk_admin.secret\n", "addresses.json": `{"mqtt":"192.0.2.7:1883","http":"192.0.2.7:9010","ws":"192.0.2.7:9011"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AIBRIDGE_API_KEY", "")
	t.Setenv("AIBRIDGE_TOKEN", "")
	t.Setenv("AIBRIDGE_DATA", dir)
	for name, c := range map[string]struct {
		target target
		shown  bool
	}{
		"no address":             {target{}, true},
		"loopback":               {target{url: "mqtt://127.0.0.1:1883"}, true},
		"loopback, IPv6":         {target{url: "https://[::1]:9010"}, true},
		"localhost":              {target{url: "ws://localhost:9011/mqtt"}, true},
		"an address of its own":  {target{url: "http://192.0.2.7:9010"}, true},
		"another port":           {target{url: "http://192.0.2.7:80"}, false},
		"another host":           {target{url: "mqtts://bridge.example:8883"}, false},
		"a host that looks like": {target{url: "mqtts://127.0.0.1.example:8883"}, false},
		"both are named":         {target{url: "mqtts://bridge.example:8883", data: dir}, true},
	} {
		if option, err := c.target.credential(); err != nil || (option != nil) != c.shown {
			t.Errorf("%s: shown %t, %v", name, option != nil, err)
		}
	}
}
