// Package keyfile keeps secrets in files that only their owner can read.
package keyfile

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// Secret reads a secret of size bytes from a file, or makes one of random
// bytes if there is no such file.
func Secret(path string, size int) ([]byte, error) {
	secret, err := ReadOrMake(path, func() []byte {
		random := make([]byte, size)
		_, _ = rand.Read(random) // never fails
		return random
	})
	if err == nil && len(secret) != size {
		return nil, fmt.Errorf("%s has %d bytes instead of %d", filepath.Base(path), len(secret), size)
	}
	return secret, err
}

// Fingerprint identifies a secret without revealing it. The file's name is hashed
// too, so that equal contents of two files differ.
func Fingerprint(file string, secret []byte) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("aibridge cluster key\x00" + file))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// ReadOrMake reads a file, or makes it with the bytes that content returns.
func ReadOrMake(path string, content func() []byte) ([]byte, error) {
	data, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	data = content()
	return data, Write(path, data)
}

// Write replaces a file that only its owner can read, or makes it, see
// [WriteMode].
func Write(path string, data []byte) error { return WriteMode(path, data, 0o600) }

// WriteMode replaces a file, or makes it. When it returns, the new file is on
// the disk whole, with the mode; until then the old one stays.
func WriteMode(path string, data []byte, mode fs.FileMode) error {
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // made with 0600
	if err != nil {
		return err
	}
	defer os.Remove(part.Name())
	_, err = part.Write(data)
	if err = errors.Join(err, part.Chmod(mode), part.Sync(), part.Close()); err != nil {
		return err
	}
	if err := os.Rename(part.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a new name in a folder last. On systems that cannot sync a
// folder the name lasts as well as it does there.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	err = folder.Sync()
	if runtime.GOOS == "windows" || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}
