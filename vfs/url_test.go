package vfs

import (
	"testing"

	"github.com/aibridge/aibridge/protocol"
)

func TestCredentialsDoNotGoToVFSsOnTheInternetInTheClear(t *testing.T) {
	for _, test := range []struct {
		url        string
		credential bool
		good       bool
	}{
		{"http://example.com/vfs", false, true},
		{"http://example.com/vfs", true, false},
		{"https://example.com/vfs", true, true},
		{"http://192.168.1.2/vfs", true, true},
	} {
		err := checkURL(test.url, test.credential)
		if (err == nil) != test.good || err != nil && protocol.CodeOf(err) != protocol.InvalidParameter {
			t.Errorf("%s, credential %v: %v", test.url, test.credential, err)
		}
	}
}
