package filename

import "testing"

func TestIsDevice(t *testing.T) {
	for _, name := range []string{"nul", "NUL", "Nul.txt", "con", "aux .tar.gz", "com1", "COM¹.log", "lpt9", "clock$", "CONIN$"} {
		if !IsDevice(name) {
			t.Errorf("%q is no device", name)
		}
	}
	for _, name := range []string{"", "null", "console", "com", "com10", "lpta", "1", "a.nul", "prn_", "auxiliary.txt"} {
		if IsDevice(name) {
			t.Errorf("%q is a device", name)
		}
	}
}
