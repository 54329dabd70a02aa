package cleartext

import (
	"net/url"
	"testing"
)

func TestCredentialsDoNotCrossTheInternetInTheClear(t *testing.T) {
	for text, want := range map[string]bool{
		"https://example.com/x": true, "http://127.0.0.1:8080": true, "http://[::1]/": true, "http://[::ffff:10.0.0.1]/": true,
		"http://192.168.1.9/": true, "http://169.254.1.1/": true, "http://nas/": true, "http://nas.lan": true, "http://x.svc": true,
		"http://localhost:11434": true, "http://printer.local./": true,
		"http://example.com/x": false, "http://8.8.8.8/": false, "http://[2001:db8::1]/": false, "http://local.example.com": false,
		"http://127.0.0.1.example.com": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if why := Exposes(u); (why == "") != want {
			t.Errorf("%s: %q", text, why)
		}
	}
}
