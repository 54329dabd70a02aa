package protocol

import "bytes"

// Version is the protocol version the bridge speaks. Every 0.6.x is
// understood; responses carry this one.
const Version = "0.6.3"

// SupportedVersions are those told to who sends another one. Later 0.6.x are
// understood as well.
func SupportedVersions() []string { return []string{"0.6.3", "0.6.2", "0.6.1", "0.6.0"} }

// version reads the version, and whether it is older than this one.
func (e *envelope) version() (version string, old bool) {
	if !e.is(fVersion, kindString) {
		return "", false
	}
	v := e.string(fVersion)
	if string(v) == Version {
		return Version, false
	}
	patch, ok := bytes.CutPrefix(v, []byte("0.6."))
	if !ok || !isPatch(patch) {
		e.unsupported()
		return "", false
	}
	version = string(v)
	if old = len(patch) == 1 && patch[0] < '3'; old {
		e.deprecate("version " + version + " is deprecated, send " + Version)
	}
	return version, old
}

// isPatch reports whether s is the third part of a version: up to four digits
// without a leading zero.
func isPatch(s []byte) bool {
	if len(s) < 1 || len(s) > 4 || s[0] == '0' && len(s) > 1 {
		return false
	}
	for _, c := range s {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// unsupported notes another version of the protocol. It takes precedence over faults of
// other fields, which that version may have changed.
func (e *envelope) unsupported() {
	if e.err == nil {
		e.err = Errorf(UnsupportedVersion, "version %s is not supported, send %s", e.quoted(fVersion), Version).
			With("param_name", fVersion.path()).With("supported", SupportedVersions())
	}
}
