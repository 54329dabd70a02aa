// Package clusterkey keeps the credentials of a bridge of a cluster in one file:
// the key under which its servers know each other, and the secrets that all bridges
// of a cluster share.
package clusterkey

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/security"
	"github.com/aibridge/aibridge/security/keyfile"
	"github.com/aibridge/aibridge/security/pki"
	"github.com/aibridge/aibridge/security/seal"
)

// RoutesBytes is the length of the key of the routes.
const RoutesBytes = 32

// secretBytes is the length of each secret that bridges share.
const secretBytes = 32

// maxFile bounds a key file, in bytes.
const maxFile = 64 << 10

// Files are the secrets that all bridges of a cluster share, by their names in
// the data folder. The first identifies the cluster; the others have versions.
var Files = []string{security.PepperFile, pki.KeyFile, seal.KeyFile}

// A Key is the content of a cluster's key file.
type Key struct {
	Routes  []byte            // the servers of the cluster know each other by it
	Next    []byte            // will be Routes, and is let in already; nil if there is none
	Last    []byte            // was Routes, and is let in still; nil if there is none
	Secrets map[string][]byte // of [Files]
}

// written is a [Key] as the file has it.
type written struct {
	Routes  string            `yaml:"routes"`
	Next    string            `yaml:"routes_next,omitempty"`
	Last    string            `yaml:"routes_last,omitempty"`
	Secrets map[string]string `yaml:"secrets"`
}

// New makes a key for a cluster that begins with the bridge that has its data in
// dir, "" for none: secrets that are there become the cluster's, others are made.
func New(dir string) (*Key, error) { return newKey(dir, &Key{Routes: random(RoutesBytes)}) }

// Renew makes the key anew of a cluster whose bridges may have put the next versions
// of secrets into their data folders, of which dir is one.
func (k *Key) Renew(dir string) (*Key, error) {
	pepper, err := os.ReadFile(filepath.Join(dir, security.PepperFile))
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(pepper, k.Secrets[security.PepperFile]) {
		return nil, fmt.Errorf("%s is of no bridge of this cluster: its %s is another", dir, security.PepperFile)
	}
	return newKey(dir, k)
}

// newKey makes a key with the routes of another and the secrets in dir.
func newKey(dir string, routes *Key) (*Key, error) {
	k := &Key{Routes: routes.Routes, Next: routes.Next, Last: routes.Last, Secrets: make(map[string][]byte)}
	for _, file := range Files {
		k.Secrets[file] = random(secretBytes)
		if dir == "" {
			continue
		}
		secret, err := os.ReadFile(filepath.Join(dir, file))
		switch {
		case err == nil:
			k.Secrets[file] = secret
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return k, k.check()
}

func random(n int) []byte {
	secret := make([]byte, n)
	_, _ = rand.Read(secret) // never fails
	return secret
}

// Encode is the content of the file.
func (k *Key) Encode() ([]byte, error) {
	w := written{Routes: encode(k.Routes), Next: encode(k.Next), Last: encode(k.Last), Secrets: make(map[string]string)}
	for file, secret := range k.Secrets {
		w.Secrets[file] = encode(secret)
	}
	out := bytes.NewBufferString("# The key of a cluster of AI Bridge. Who has it can act as any of its bridges.\n")
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	if err := enc.Encode(&w); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// Read reads a key file.
func Read(path string) (*Key, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("key of the cluster: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("key of the cluster: %w", err)
	}
	k, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s is no key of a cluster: %w", path, err)
	}
	return k, nil
}

// Decode reads the content of a key file. Its errors reveal nothing of it.
func Decode(data []byte) (*Key, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("it is larger than %d KiB", maxFile>>10)
	}
	var w written
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if dec.Decode(&w) != nil { // its error may quote secrets
		return nil, errors.New("it must be YAML with routes and secrets, as aibridge cluster init writes it")
	}
	k := &Key{Secrets: make(map[string][]byte)}
	var err error
	if k.Routes, err = decode("routes", w.Routes); err != nil {
		return nil, err
	}
	for field, of := range map[string]struct {
		text string
		key  *[]byte
	}{"routes_next": {w.Next, &k.Next}, "routes_last": {w.Last, &k.Last}} {
		if of.text == "" {
			continue
		}
		if *of.key, err = decode(field, of.text); err != nil {
			return nil, err
		}
	}
	for file, text := range w.Secrets {
		if k.Secrets[file], err = decode("secrets."+file, text); err != nil {
			return nil, err
		}
	}
	return k, k.check()
}

func encode(secret []byte) string { return base64.StdEncoding.EncodeToString(secret) }

func decode(field, text string) ([]byte, error) {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("%s is not base64", field)
	}
	return secret, nil
}

// check names fields that are missing or of a wrong size.
func (k *Key) check() error {
	if len(k.Routes) != RoutesBytes {
		return fmt.Errorf("routes has %d bytes instead of %d", len(k.Routes), RoutesBytes)
	}
	for field, also := range map[string][]byte{"routes_next": k.Next, "routes_last": k.Last} {
		if n := len(also); n != 0 && n != RoutesBytes {
			return fmt.Errorf("%s has %d bytes instead of %d", field, n, RoutesBytes)
		}
	}
	if k.Next != nil && k.Last != nil {
		return errors.New("routes_next and routes_last are of two rotations")
	}
	for _, file := range Files {
		if n := len(k.Secrets[file]); n != secretBytes {
			return fmt.Errorf("secrets.%s has %d bytes instead of %d", file, n, secretBytes)
		}
	}
	if len(k.Secrets) != len(Files) {
		return fmt.Errorf("secrets has others than %s", strings.Join(Files, ", "))
	}
	return nil
}

// Install gives the bridge with the data folder the secrets of the cluster. It
// refuses if the bridge has others, under which things may be sealed. Files that are
// rotated may have their next version there; whether they do is seen when the bridge
// joins.
func (k *Key) Install(dir string) error {
	for _, file := range Files {
		path := filepath.Join(dir, file)
		has, err := keyfile.ReadOrMake(path, func() []byte { return k.Secrets[file] })
		if err != nil {
			return fmt.Errorf("a secret of the cluster: %w", err)
		}
		if !bytes.Equal(has, k.Secrets[file]) && file == security.PepperFile {
			return fmt.Errorf("this bridge has a %s of its own, not that of the cluster: make the cluster's key of this data folder (aibridge cluster init --data), or begin with a new one", file)
		}
	}
	return nil
}
