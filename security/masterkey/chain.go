package masterkey

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/security/keyfile"
)

// numbered is a version that has a record.
type numbered struct {
	number int
	record *Version
}

// chain are the versions of this file that have records, the newest first.
func (f *File) chain() (all []numbered) {
	for key, r := range f.o.Versions.All() {
		if text, mine := strings.CutPrefix(key, f.o.Name+"/"); mine {
			if number, err := strconv.Atoi(text); err == nil {
				all = append(all, numbered{number, r})
			}
		}
	}
	slices.SortFunc(all, func(a, b numbered) int { return cmp.Compare(b.number, a.number) })
	return all
}

// reach opens the versions that can be reached from the known ones, and forgets the
// retired ones. The caller holds mu.
func (f *File) reach() (all []numbered) {
	all = f.chain()
	for again := true; again; {
		again = false
		for _, v := range all {
			for _, way := range []struct {
				from, to string
				box      []byte
				open     func(key, box []byte) ([]byte, error)
			}{
				{v.record.Before, v.record.ID, v.record.Next, f.openNext},
				{v.record.ID, v.record.Before, v.record.Back, f.openBack},
			} {
				if f.known[way.from] == nil || f.known[way.to] != nil || way.box == nil {
					continue
				}
				key, err := way.open(f.known[way.from], way.box)
				if err == nil && keyfile.Fingerprint(f.o.Name, key) == way.to {
					f.learn(key)
					again = true
				}
			}
		}
	}
	for _, v := range all {
		if !v.record.Retired.IsZero() && v.record.Before != f.held {
			delete(f.known, v.record.Before)
		}
	}
	return all
}

// active is the id of the version that seals. The caller holds mu.
func (f *File) active(all []numbered) string {
	for _, v := range all {
		if !v.record.Active.IsZero() {
			return v.record.ID
		}
	}
	if len(all) > 0 {
		return all[len(all)-1].record.Before
	}
	return f.held
}

// box is the cipher that seals another version. A later version takes the pepper, too: an
// old copy of the file does not open a later backup.
func (f *File) box(key []byte, onward bool) (cipher.AEAD, error) {
	var salt []byte
	use := "aibridge version before\x00" + f.o.Name
	if onward {
		use = "aibridge next version\x00" + f.o.Name
		pepper, err := os.ReadFile(filepath.Join(f.o.Dir, PepperFile))
		if err != nil {
			return nil, err
		}
		salt = pepper
	}
	derived, err := hkdf.Key(sha256.New, key, salt, use, Size)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func (f *File) seal(key, other []byte, onward bool) ([]byte, error) {
	box, err := f.box(key, onward)
	if err != nil {
		return nil, err
	}
	return box.Seal(nil, nil, other, nil), nil
}

func (f *File) open(key, sealed []byte, onward bool) ([]byte, error) {
	box, err := f.box(key, onward)
	if err != nil {
		return nil, err
	}
	if other, err := box.Open(nil, nil, sealed, nil); err == nil && len(other) == Size {
		return other, nil
	}
	return nil, errors.New("damaged, or sealed with another key")
}

func (f *File) openNext(key, sealed []byte) ([]byte, error) { return f.open(key, sealed, true) }
func (f *File) openBack(key, sealed []byte) ([]byte, error) { return f.open(key, sealed, false) }

// newKey makes the version after one, with the ways between the two.
func (f *File) newKey(before string, key []byte) (*Version, error) {
	fresh := make([]byte, Size)
	_, _ = rand.Read(fresh) // never fails
	defer clear(fresh)
	next, err := f.seal(key, fresh, true)
	if err != nil {
		return nil, err
	}
	back, err := f.seal(fresh, key, false)
	if err != nil {
		return nil, err
	}
	return &Version{ID: keyfile.Fingerprint(f.o.Name, fresh), Created: f.o.Now().UTC(), Before: before, Next: next, Back: back}, nil
}
