package toolhost

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/llm/run/fault"
	"github.com/aibridge/aibridge/llm/run/mount"
	"github.com/aibridge/aibridge/llm/tools"
)

type readArgs struct {
	Path      string `json:"path"`
	StartLine *int64 `json:"startLine"`
	EndLine   *int64 `json:"endLine"`
}

// ReadResult is the result of fs.read: bytes and sha256 of the whole file, and the
// content of the requested lines.
type ReadResult struct {
	OK             bool    `json:"ok"`
	Path           string  `json:"path"`
	Bytes          int64   `json:"bytes"`
	SHA256         string  `json:"sha256"`
	Truncated      bool    `json:"truncated"`
	Content        *string `json:"content,omitempty"`        // unless truncated
	ContentPreview *string `json:"contentPreview,omitempty"` // if truncated
	Hint           string  `json:"hint,omitempty"`           // if truncated
}

func (b *bounded) readTool() *tools.Tool {
	return tool("fs.read", "Read a file",
		"Read a text file, or some of its lines. Prefer fs_search and a window of lines for large files.",
		commands.Read, []tools.Parameter{
			text("path", pathText, true),
			number("startLine", "First line, counted from 1."),
			number("endLine", "Last line, inclusive."),
		}, b.readFile)
}

// noLine is a number beyond every line.
const noLine = int64(1) << 60

func (b *bounded) readFile(ctx context.Context, a readArgs) (any, error) {
	location, err := b.opts.Mounts.Resolve(a.Path)
	if err != nil {
		return nil, err
	}
	w := window{from: 1, to: noLine, limit: b.read}
	if a.StartLine != nil {
		w.from = *a.StartLine
	}
	if a.EndLine != nil {
		w.to = *a.EndLine
	}
	if w.from < 1 || w.to < w.from {
		return nil, fault.Errorf(fault.SchemaValidation, "lines count from 1, and endLine may not be before startLine")
	}
	file, _, err := location.Open(ctx, location.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := w.read(file); err != nil {
		return nil, err
	}
	return w.result(location)
}

// A window collects lines of a file while the whole file is read and hashed. It never
// holds more than its limit.
type window struct {
	from, to int64 // lines, inclusive
	limit    int64 // bytes

	sum    [sha256.Size]byte
	bytes  int64
	lines  int64 // of the file, the last one included even without its end
	text   []byte
	last   int64 // last line of the text
	more   bool  // the text is only a part of the window
	binary bool
}

// sniffed is the length of the part of a file by which text is detected.
const sniffed = 8 << 10

func (w *window) read(file io.Reader) error {
	sum := sha256.New()
	r := bufio.NewReaderSize(io.TeeReader(file, sum), 64<<10)
	if head, _ := r.Peek(sniffed); bytes.IndexByte(head, 0) >= 0 {
		w.binary = true
	}
	line := int64(1)
	for {
		piece, err := r.ReadSlice('\n')
		w.bytes += int64(len(piece))
		if len(piece) > 0 {
			w.lines = line
			w.take(line, piece)
		}
		switch {
		case err == nil:
			line++
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			sum.Sum(w.sum[:0])
			return nil
		default:
			return err
		}
	}
}

// take adds the part of a piece of a line that fits.
func (w *window) take(line int64, piece []byte) {
	if line < w.from || line > w.to || w.more {
		return
	}
	if room := w.limit - int64(len(w.text)); int64(len(piece)) > room {
		piece, w.more = piece[:room], true
	}
	w.text = append(w.text, piece...)
	w.last = line
}

func (w *window) result(location mount.Location) (any, error) {
	r := ReadResult{OK: true, Path: location.String(), Bytes: w.bytes, SHA256: mount.Sum(w.sum).String()}
	switch {
	case w.binary:
		return nil, fault.Errorf(fault.ReadLimit, "%s is no text file, so no part of it can be shown", r.Path).
			With("path", r.Path).With("bytes", r.Bytes).With("sha256", r.SHA256).With("binary", true)
	case !w.more:
		content := string(w.text)
		if w.to != noLine {
			content = strings.TrimSuffix(strings.TrimSuffix(content, "\n"), "\r")
		}
		content = strings.ToValidUTF8(content, "\ufffd")
		r.Content = &content
		return r, nil
	}
	preview := w.preview()
	if preview == "" {
		return nil, fault.Errorf(fault.ReadLimit, "%s has %d bytes, and a call may read %d: not one character can be shown", r.Path, w.bytes, w.limit).
			With("path", r.Path).With("bytes", r.Bytes).With("sha256", r.SHA256).With("limit", w.limit)
	}
	r.Truncated, r.ContentPreview, r.Hint = true, &preview, w.hint(preview)
	return r, nil
}

// preview is the part that fits: whole lines if at least one fits, and else whole
// characters.
func (w *window) preview() string {
	text := w.text
	if end := bytes.LastIndexByte(text, '\n'); end >= 0 {
		text = text[:end+1]
	} else {
		for cut := 1; cut < utf8.UTFMax && cut <= len(text); cut++ {
			if c := text[len(text)-cut]; utf8.RuneStart(c) {
				if !utf8.FullRune(text[len(text)-cut:]) {
					text = text[:len(text)-cut]
				}
				break
			}
		}
	}
	return strings.ToValidUTF8(string(text), "\ufffd")
}

func (w *window) hint(preview string) string {
	shown := int64(strings.Count(preview, "\n"))
	if shown == 0 {
		return fmt.Sprintf("The file has %d bytes in %d lines. Shown is the beginning of line %d, which is longer than the %d bytes a call may read; find what you need with fs_search.",
			w.bytes, w.lines, w.from, w.limit)
	}
	return fmt.Sprintf("The file has %d bytes in %d lines. Shown are the lines %d to %d, as a call may read %d bytes. Go on with startLine=%d, or find the place with fs_search and read a window of lines.",
		w.bytes, w.lines, w.from, w.from+shown-1, w.limit, w.from+shown)
}
