package store

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// An archive is a gzipped tar. Its files hold one JSON object a line: the
// registry's in registry/000001.jsonl and so on, the claims' in
// claims/000001.jsonl, the journal's in mqtt-values/000001.jsonl and
// mqtt-log/000001.jsonl, the audit trails' in audit/000001.jsonl, and the bridge's
// own files in files/000001.jsonl. The last file, manifest.json, names them all
// with their SHA-256 sums; an archive without it is incomplete.

const (
	archiveFormat   = "aibridge-backup"
	archiveVersion  = 2 // 1 had neither audit trails nor files
	manifestFile    = "manifest.json"
	registrySection = "registry"
	claimsSection   = "claims"
	valuesSection   = "mqtt-values"
	entriesSection  = "mqtt-log"
	auditSection    = "audit"

	// partSize is the number of bytes after which a file of an archive is closed
	// and the next begun: so much is held in memory at once.
	partSize = 4 << 20
	// maxPart is the buffer of a reader, in bytes: a part and one line more.
	maxPart = partSize + 2*maxRecord
	// maxRecord bounds a stored value. No server takes more in one message.
	maxRecord = 64 << 20
	// maxManifest bounds the manifest: that of some terabytes.
	maxManifest = 256 << 20
)

// A Manifest lists the content of an archive.
type Manifest struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Created time.Time `json:"created"`
	// LastRevision is the registry's revision when it was copied. Restored values get
	// revisions above it.
	LastRevision uint64 `json:"last_revision"`
	Keys         int    `json:"keys"`    // lines of the registry that are not deletions
	Claims       int    `json:"claims"`  // lines of the claims
	Values       int    `json:"values"`  // lines of the journal's values
	Entries      int    `json:"entries"` // lines of the journal's log
	Groups       int    `json:"groups"`  // lines of the audit trails
	// Files are the numbers of files, by place.
	Files map[string]int `json:"files,omitempty"`
	Parts []Part         `json:"parts"`
}

// A Part is one file of an archive.
type Part struct {
	File   string `json:"file"`
	Lines  int    `json:"lines"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// A registryLine is one key of the registry.
type registryLine struct {
	Table    string          `json:"table"`
	Key      string          `json:"key"`
	Revision uint64          `json:"revision"`
	Deleted  bool            `json:"deleted,omitempty"` // an earlier line's value is gone
	Record   json.RawMessage `json:"record,omitempty"`  // as stored, with its schema version
}

// A claimLine is one claim.
type claimLine struct {
	Principal string `json:"principal"`
	RequestID string `json:"request_id"`
	Hash      string `json:"hash"`    // hexadecimal
	Expires   int64  `json:"expires"` // Unix milliseconds
}

// An archiveWriter cuts the lines of a section into parts.
type archiveWriter struct {
	tar      *tar.Writer
	manifest Manifest
	section  string
	numbered int // parts of the section so far
	lines    int // in the part
	part     bytes.Buffer
	bytes    int64          // of all parts so far
	progress func(Progress) // optional
}

func newArchiveWriter(w io.Writer, progress func(Progress)) *archiveWriter {
	return &archiveWriter{tar: tar.NewWriter(w), progress: progress, manifest: Manifest{
		Format:  archiveFormat,
		Version: archiveVersion,
		Created: time.Now().UTC(),
	}}
}

// begin ends the section before and begins another.
func (a *archiveWriter) begin(section string) error {
	err := a.endPart()
	a.section, a.numbered = section, 0
	return err
}

func (a *archiveWriter) line(v any) error {
	enc := json.NewEncoder(&a.part)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	a.lines++
	if a.part.Len() < partSize {
		return nil
	}
	return a.endPart()
}

func (a *archiveWriter) endPart() error {
	if a.lines == 0 {
		return nil
	}
	a.numbered++
	sum := sha256.Sum256(a.part.Bytes())
	part := Part{
		File:   fmt.Sprintf("%s/%06d.jsonl", a.section, a.numbered),
		Lines:  a.lines,
		Bytes:  a.part.Len(),
		SHA256: hex.EncodeToString(sum[:]),
	}
	a.manifest.Parts = append(a.manifest.Parts, part)
	err := a.file(part.File, a.part.Bytes())
	a.bytes += int64(a.part.Len())
	a.part.Reset()
	a.lines = 0
	if err == nil && a.progress != nil {
		a.progress(Progress{Section: a.section, Bytes: a.bytes})
	}
	return err
}

// end writes the manifest and completes the archive.
func (a *archiveWriter) end() error {
	if err := a.endPart(); err != nil {
		return err
	}
	manifest, err := json.MarshalIndent(a.manifest, "", "  ")
	if err != nil {
		return err
	}
	if err := a.file(manifestFile, append(manifest, '\n')); err != nil {
		return err
	}
	return a.tar.Close()
}

func (a *archiveWriter) file(name string, data []byte) error {
	err := a.tar.WriteHeader(&tar.Header{
		Name:    name,
		Mode:    0o600,
		Size:    int64(len(data)),
		ModTime: a.manifest.Created,
		Format:  tar.FormatPAX,
	})
	if err != nil {
		return err
	}
	_, err = a.tar.Write(data)
	return err
}

// CheckArchive reads an archive to its end and returns its manifest. It fails if the
// archive is cut off, or a part differs from the manifest. Progress is optional.
func CheckArchive(r io.Reader, progress func(Progress)) (*Manifest, error) {
	var at, told Progress
	return readArchive(r, func(section string, line []byte) error {
		at = Progress{Section: section, Bytes: at.Bytes + int64(len(line))}
		if progress != nil && (at.Section != told.Section || at.Bytes-told.Bytes >= partSize) {
			told = at
			progress(at)
		}
		return nil
	})
}

// readArchive reads an archive and calls f for every line of its parts, in
// order, with the section the part belongs to. It returns the manifest after
// everything agreed with it.
func readArchive(r io.Reader, f func(section string, line []byte) error) (*Manifest, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("not a backup: %w", err)
	}
	files := tar.NewReader(zip)
	var parts []Part
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the backup is cut off: it has no manifest")
		}
		if err != nil {
			return nil, err
		}
		if header.Name == manifestFile {
			manifest, err := readManifest(files, parts)
			if err == nil {
				_, err = io.Copy(io.Discard, zip) //nolint:gosec // keeps nothing; checks the sum of the whole
			}
			return manifest, err
		}
		part, err := readPart(files, header, f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", header.Name, err)
		}
		parts = append(parts, part)
	}
}

func readPart(r io.Reader, header *tar.Header, f func(section string, line []byte) error) (Part, error) {
	section, _, _ := strings.Cut(header.Name, "/")
	switch section {
	case registrySection, claimsSection, valuesSection, entriesSection, auditSection, filesSection:
	default:
		return Part{}, errors.New("nothing of this name belongs into a backup of this version")
	}
	if header.Size > maxPart {
		return Part{}, fmt.Errorf("%d bytes are too many", header.Size)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return Part{}, err
	}
	sum := sha256.Sum256(data)
	part := Part{File: header.Name, Bytes: len(data), SHA256: hex.EncodeToString(sum[:])}
	for line := range bytes.Lines(data) {
		part.Lines++
		if err := f(section, line); err != nil {
			return Part{}, fmt.Errorf("line %d: %w", part.Lines, err)
		}
	}
	return part, nil
}

// readManifest reads the manifest of an archive whose files were parts.
func readManifest(r io.Reader, parts []Part) (*Manifest, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxManifest))
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFile, err)
	}
	switch {
	case m.Format != archiveFormat:
		return nil, fmt.Errorf("not a backup: its format is %q", m.Format)
	case m.Version > archiveVersion:
		return nil, fmt.Errorf("written by a newer bridge: backup version %d, this one knows up to %d", m.Version, archiveVersion)
	case len(m.Parts) != len(parts):
		return nil, fmt.Errorf("the backup has %d parts, its manifest %d", len(parts), len(m.Parts))
	}
	for i, part := range parts {
		if m.Parts[i] != part {
			return nil, fmt.Errorf("%s is damaged: it does not agree with the manifest", part.File)
		}
	}
	return &m, nil
}
