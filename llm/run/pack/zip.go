package pack

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
)

// Limits are the limits of a package; zero values are the defaults.
type Limits struct {
	Zip     int64 // bytes of the zip, 32 MiB
	Entries int   // files and folders, 2 000
	File    int64 // bytes of one file, unpacked, 8 MiB
	Total   int64 // bytes of all files, unpacked, 64 MiB
	Ratio   int64 // greatest compression ratio of a file of 64 KiB and more, 200
}

func (l Limits) orDefaults() Limits {
	return Limits{
		Zip: cmp.Or(l.Zip, 32<<20), Entries: cmp.Or(l.Entries, 2000), File: cmp.Or(l.File, 8<<20),
		Total: cmp.Or(l.Total, 64<<20), Ratio: cmp.Or(l.Ratio, 200),
	}
}

// smallFile is the size up to which the ratio is not checked.
const smallFile = 64 << 10

// Read reads a zipped package, in memory alone. The error is one of [Load], or
// PACKAGE_LIMIT_EXCEEDED.
func Read(data []byte, limits Limits) (*Package, error) {
	files, err := unzip(data, limits.orDefaults())
	if err != nil {
		return nil, err
	}
	p, err := Load(files)
	if err != nil {
		return nil, err
	}
	p.SHA256 = sha256.Sum256(data)
	return p, nil
}

type unzipper struct {
	limits Limits
	files  map[string][]byte
	total  int64
	names  map[string]string // names of files and folders, by folded name
}

func unzip(data []byte, limits Limits) (map[string][]byte, error) {
	if int64(len(data)) > limits.Zip {
		return nil, tooMuch("the package has more than %d bytes", limits.Zip)
	}
	// The reader allocates memory for every entry, so they are counted first. Entries
	// of a zip inside count too, so the bound is loose.
	if bytes.Count(data, []byte("PK\x01\x02")) > max(1<<16, 2*limits.Entries) {
		return nil, tooMuch("the package has more than %d entries", limits.Entries)
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, damaged("", "it is no zip that can be read")
	}
	if len(r.File) > limits.Entries {
		return nil, tooMuch("the package has more than %d entries", limits.Entries)
	}
	if err := apart(r.File); err != nil {
		return nil, err
	}
	u := &unzipper{limits: limits, files: make(map[string][]byte, len(r.File)), names: make(map[string]string)}
	for _, f := range r.File {
		if err := u.entry(f); err != nil {
			return nil, err
		}
	}
	return u.files, nil
}

// apart refuses entries that share bytes, by which a small zip could unpack to any
// size.
func apart(files []*zip.File) error {
	type span struct{ from, to int64 }
	spans := make([]span, 0, len(files))
	for _, f := range files {
		at, err := f.DataOffset()
		if err != nil || f.CompressedSize64 > 1<<40 {
			return damaged(f.Name, "the entry is damaged")
		}
		if f.CompressedSize64 > 0 {
			spans = append(spans, span{at, at + int64(f.CompressedSize64)})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(spans); i++ {
		if spans[i].from < spans[i-1].to {
			return damaged("", "entries overlap")
		}
	}
	return nil
}

func (u *unzipper) entry(f *zip.File) error {
	folder := strings.HasSuffix(f.Name, "/")
	name := strings.TrimSuffix(f.Name, "/")
	clean, reason := mount.Clean(name)
	switch {
	case reason != "":
		return damaged(f.Name, reason)
	case clean != name || name == "":
		return damaged(f.Name, "it is no plain relative path")
	case f.Flags&1 != 0:
		return damaged(f.Name, "it is encrypted")
	case f.Mode()&fs.ModeType&^fs.ModeDir != 0:
		return damaged(f.Name, "it is a link or a device")
	case f.Mode().IsDir() != folder && f.Mode().IsDir():
		return damaged(f.Name, "it is a folder and a file")
	}
	if name == "__MACOSX" || strings.HasPrefix(name, "__MACOSX/") || strings.HasSuffix(name, ".DS_Store") {
		return nil // macOS adds these to every zip
	}
	if err := u.claim(name, folder); err != nil || folder {
		return err
	}
	return u.unpack(f, name)
}

// claim records a name, and those of the folders above it. It refuses a name that
// equals another one on some systems.
func (u *unzipper) claim(name string, folder bool) error {
	for i, c := range name {
		if c != '/' {
			continue
		}
		above := name[:i]
		if other, ok := u.names[fold(above)]; ok && other != above+"/" {
			return damaged(name, "some systems take a folder of it for "+strings.TrimSuffix(other, "/"))
		}
		u.names[fold(above)] = above + "/"
	}
	self := name
	if folder {
		self += "/"
	}
	other, ok := u.names[fold(name)]
	switch {
	case !ok, folder && other == self:
		u.names[fold(name)] = self
		return nil
	case other == self:
		return damaged(name, "it is there twice")
	}
	return damaged(name, "some systems take it for "+strings.TrimSuffix(other, "/"))
}

// fold is equal for names that are equal on some systems.
func fold(name string) string { return norm.NFC.String(cases.Fold().String(norm.NFC.String(name))) }

func (u *unzipper) unpack(f *zip.File, name string) error {
	if f.UncompressedSize64 > uint64(u.limits.File) {
		return tooMuch("%s has more than %d bytes", name, u.limits.File)
	}
	r, err := f.Open()
	if errors.Is(err, zip.ErrAlgorithm) {
		return damaged(name, "it is compressed in a way that is not understood")
	}
	if err != nil {
		return damaged(name, "the entry is damaged")
	}
	defer r.Close()
	// The declared size of the entry is used only if it is small.
	bound := min(u.limits.File, u.limits.Total-u.total)
	if packed := int64(f.CompressedSize64); packed < bound/u.limits.Ratio {
		bound = min(bound, max(smallFile, packed*u.limits.Ratio))
	}
	text, err := io.ReadAll(io.LimitReader(r, bound+1))
	switch {
	case int64(len(text)) > bound && u.total+int64(len(text)) > u.limits.Total:
		return tooMuch("the package unpacks to more than %d bytes", u.limits.Total)
	case int64(len(text)) > bound && int64(len(text)) > u.limits.File:
		return tooMuch("%s has more than %d bytes", name, u.limits.File)
	case int64(len(text)) > bound:
		return tooMuch("%s unpacks to more than %d times its size", name, u.limits.Ratio)
	case err != nil:
		return damaged(name, "the entry is damaged")
	}
	u.total += int64(len(text))
	u.files[name] = text
	return nil
}

func tooMuch(format string, args ...any) error {
	return fault.Errorf(fault.PackageLimit, format, args...)
}

// damaged is the error of a zip with a faulty entry, or of a faulty zip as a whole.
func damaged(name, reason string) error {
	if len(name) > mount.MaxPath {
		name = name[:mount.MaxPath]
	}
	name = strings.ToValidUTF8(name, "\ufffd")
	return refusal(fault.PackageInvalid, "the package is not valid", []Problem{{File: name, Reason: reason}})
}
