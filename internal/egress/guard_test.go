package egress

import (
	"net/netip"
	"testing"
)

func TestTheGuardKnowsTheAddressesToRefuse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ public, private bool }{
		"93.184.216.34":          {true, true},
		"2606:2800:220:1::1":     {true, true},
		"127.0.0.1":              {false, true},
		"127.255.255.254":        {false, true},
		"::1":                    {false, true},
		"10.1.2.3":               {false, true},
		"172.16.0.1":             {false, true},
		"172.32.0.1":             {true, true},
		"192.168.1.1":            {false, true},
		"100.64.0.1":             {false, true},
		"fd12:3456::1":           {false, true},
		"::ffff:10.0.0.1":        {false, true},
		"::ffff:127.0.0.1":       {false, true},
		"::ffff:93.184.216.34":   {true, true},
		"::127.0.0.1":            {false, true},
		"64:ff9b::7f00:1":        {false, true},
		"64:ff9b::a9fe:a9fe":     {false, false},
		"64:ff9b:1::1":           {false, false},
		"2002:7f00:1::1":         {false, true},
		"2002:a9fe:a9fe::1":      {false, false},
		"2001:0:1:2:3:4:5601:56": {false, false}, // Teredo, 169.254.255.169
		"169.254.169.254":        {false, false},
		"::ffff:169.254.169.254": {false, false},
		"169.254.1.1":            {false, false},
		"fe80::1":                {false, false},
		"fe80::1%eth0":           {false, false},
		"fec0::1":                {false, false},
		"fd00:ec2::254":          {false, false},
		"100.100.100.200":        {false, false},
		"168.63.129.16":          {false, false},
		"192.0.0.192":            {false, false},
		"0.0.0.0":                {false, false},
		"::":                     {false, false},
		"0.1.2.3":                {false, false},
		"224.0.0.1":              {false, false},
		"ff02::1":                {false, false},
		"255.255.255.255":        {false, false},
		"198.18.0.1":             {false, false},
		"203.0.113.7":            {false, false},
		"2001:db8::1":            {false, false},
	} {
		addr := netip.MustParseAddr(text)
		if got := (Guard{}).Refuses(addr) == ""; got != want.public {
			t.Errorf("%s: called %v, want %v", text, got, want.public)
		}
		if got := (Guard{AllowPrivate: true}).Refuses(addr) == ""; got != want.private {
			t.Errorf("%s with private targets allowed: called %v, want %v", text, got, want.private)
		}
	}
	if err := (Guard{}).Control("tcp", "not an address", nil); err == nil {
		t.Error("what is no address is called")
	}
}
