package cluster

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/protocol"
)

// Fingerprint tells a secret from others, and nothing about it. It is of the
// file that the secret is in, so that equal contents of two files differ.
func Fingerprint(file string, secret []byte) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("aibridge cluster key\x00" + file))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// A Misfit says why a node cannot work with another.
type Misfit struct {
	With   Node
	Reason string
}

func (m *Misfit) Error() string {
	return fmt.Sprintf("this bridge does not fit to bridge %q, which is in the cluster already: %s", m.With.ID, m.Reason)
}

// Unwrap is the error as callers see it.
func (m *Misfit) Unwrap() error { return protocol.Errorf(protocol.StoreUnavailable, "%s", m.Error()) }

// fits says why a node cannot work beside another that is there already, nil if
// it can.
func (r *Record) fits(other *Record) error {
	if reason := r.misfit(other); reason != "" {
		return &Misfit{other.Node, reason}
	}
	return nil
}

func (r *Record) misfit(other *Record) string {
	if d := r.Wire - other.Wire; d < -1 || d > 1 {
		return fmt.Sprintf("it speaks version %d of the bridges' protocol (release %s) and this one version %d (release %s); versions that differ by one work together, so go by the releases in between", other.Wire, other.Version, r.Wire, r.Version)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Agree)) {
		if theirs, ok := other.Agree[name]; ok && theirs != r.Agree[name] {
			return fmt.Sprintf("%s is %q there and %q here; it must be the same on all bridges of a cluster", name, theirs, r.Agree[name])
		}
	}
	return ""
}

// strangers names the files of secrets that differ from another's.
func (r *Record) strangers(other *Record) []string {
	var files []string
	for _, file := range slices.Sorted(maps.Keys(other.Keys)) {
		if r.Keys[file] != other.Keys[file] {
			files = append(files, file)
		}
	}
	return files
}

// fitsKeys says why a node that has other secrets than another cannot work
// beside it, nil if it has the same.
func (r *Record) fitsKeys(other *Record) error {
	files := r.strangers(other)
	if len(files) == 0 {
		return nil
	}
	return &Misfit{other.Node, fmt.Sprintf("%s in the data folder differ, or are not there; copy them from that bridge, or give this cluster another root if it is not the same one", strings.Join(files, ", "))}
}
