package s3

import (
	"bufio"
	"crypto/hmac"
	"crypto/md5"  //nolint:gosec // Content-MD5 shows whether a body is whole, not whose it is
	"crypto/sha1" //nolint:gosec // the same for x-amz-checksum-sha1
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
	"strconv"
	"strings"
)

// A payload is the body of a request as its content: taken out of its chunks, and
// compared with the sums and signatures that it came with. Content that does not
// match fails at the end, before anything that was read is stored.
type payload struct {
	io.Reader
	size int64 // of the content, -1 if it is not known
}

// checksums are the sums that a client may send with a body.
var checksums = map[string]func() hash.Hash{
	"x-amz-checksum-crc32":     func() hash.Hash { return crc32.NewIEEE() },
	"x-amz-checksum-crc32c":    func() hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) },
	"x-amz-checksum-crc64nvme": func() hash.Hash { return crc64.New(crc64.MakeTable(0x9a6c9329ac4bc9b5)) },
	"x-amz-checksum-sha1":      sha1.New,
	"x-amz-checksum-sha256":    sha256.New,
}

// content makes the payload of a request from its body.
func (q *request) content(body io.Reader) (payload, error) {
	p := payload{Reader: body, size: q.ContentLength}
	kind := unsignedPayload
	if q.signature != nil {
		kind = q.signature.payload
	}
	var err error
	switch kind {
	case signedChunks, signedTrailer, unsignedTrailer:
		p, err = q.chunked(body, kind)
	case unsignedPayload:
	default:
		var want []byte
		if want, err = hex.DecodeString(kind); err != nil || len(want) != sha256.Size {
			return p, refuse("InvalidArgument", "x-amz-content-sha256 must be "+unsignedPayload+", a kind of stream or a SHA-256")
		}
		p.Reader = &summed{Reader: p.Reader, hash: sha256.New(), want: want, code: "XAmzContentSHA256Mismatch"}
	}
	if err != nil {
		return p, err
	}
	if text := q.Header.Get("Content-Md5"); text != "" {
		want, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(want) != md5.Size {
			return p, refuse("InvalidDigest", "Content-MD5 is no MD5")
		}
		p.Reader = &summed{Reader: p.Reader, hash: md5.New(), want: want, code: "BadDigest"} //nolint:gosec // see above
	}
	for name, sum := range checksums {
		if text := q.Header.Get(name); text != "" {
			want, err := base64.StdEncoding.DecodeString(text)
			if h := sum(); err != nil || len(want) != h.Size() {
				return p, refuse("InvalidRequest", "Value for "+name+" header is invalid.")
			}
			p.Reader = &summed{Reader: p.Reader, hash: sum(), want: want, code: "BadDigest"}
		}
	}
	return p, nil
}

// summed fails at the end of content that does not have the sum it should.
type summed struct {
	io.Reader
	hash hash.Hash
	want []byte
	code string
}

// Read implements [io.Reader].
func (s *summed) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.hash.Write(p[:n])
	if err == io.EOF && !hmac.Equal(s.hash.Sum(nil), s.want) {
		return n, refuse(s.code, "the body has another checksum than was announced")
	}
	return n, err
}

// Bounds of chunked bodies.
const (
	maxChunk       = 64 << 20
	maxChunkHeader = 1 << 10
	maxTrailers    = 8
)

// chunked makes the payload of a body in chunks (aws-chunked).
func (q *request) chunked(body io.Reader, kind string) (payload, error) {
	size, err := strconv.ParseInt(q.Header.Get("X-Amz-Decoded-Content-Length"), 10, 64)
	if err != nil || size < 0 {
		return payload{}, refuse("MissingContentLength", "x-amz-decoded-content-length must be the size of the object")
	}
	c := &chunks{
		r: bufio.NewReaderSize(body, 64<<10), left: size, kind: kind, signature: q.signature, secret: q.secret,
		previous: hex.EncodeToString(q.signature.value), hash: sha256.New(),
	}
	if kind != signedChunks {
		c.announced = strings.ToLower(strings.TrimSpace(q.Header.Get("X-Amz-Trailer")))
		if sum := checksums[c.announced]; sum != nil {
			c.whole = sum()
		} else if c.announced != "" {
			return payload{}, refuse("InvalidRequest", "x-amz-trailer names no checksum")
		}
	}
	return payload{c, size}, nil
}

// chunks read a body in chunks, each "SIZE;chunk-signature=…" and its bytes.
type chunks struct {
	r         *bufio.Reader
	kind      string
	signature *signature
	secret    string
	previous  string    // signature, of which the next follows
	hash      hash.Hash // of the chunk
	chunk     int64     // bytes of it that are still to come
	expected  string    // its signature
	begun     bool
	left      int64 // bytes of the content that are still to come

	announced string    // name of the checksum that comes at the end
	whole     hash.Hash // of the content, nil without one
	done      bool
}

var errChunks = refuse("InvalidRequest", "the body is not in chunks as it should be")

// Read implements [io.Reader].
func (c *chunks) Read(p []byte) (int, error) {
	for c.chunk == 0 {
		if c.done {
			return 0, io.EOF
		}
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.chunk)])
	c.chunk -= int64(n)
	c.hash.Write(p[:n])
	if c.whole != nil {
		c.whole.Write(p[:n])
	}
	if err == io.EOF {
		err = refuse("IncompleteBody", "the body ended within a chunk")
	}
	return n, err
}

// next ends a chunk and begins the next one.
func (c *chunks) next() error {
	if c.begun {
		if err := c.end(); err != nil {
			return err
		}
	}
	c.begun = true
	line, err := c.line()
	if err != nil {
		return err
	}
	digits, extension, _ := strings.Cut(line, ";")
	size, err := strconv.ParseUint(digits, 16, 63)
	if err != nil || size > maxChunk {
		return errChunks
	}
	c.chunk = int64(size) //nolint:gosec // it is at most maxChunk
	if c.left -= c.chunk; c.left < 0 {
		return refuse("IncompleteBody", "the body is larger than announced")
	}
	c.expected = strings.TrimPrefix(extension, "chunk-signature=")
	c.hash.Reset()
	if size > 0 {
		return nil
	}
	c.done = true
	if c.left > 0 {
		return refuse("IncompleteBody", "the body is smaller than announced")
	}
	if err := c.verify(); err != nil {
		return err
	}
	return c.trailer()
}

// end reads the end of a chunk's bytes, and judges them.
func (c *chunks) end() error {
	var crlf [2]byte
	if _, err := io.ReadFull(c.r, crlf[:]); err != nil || string(crlf[:]) != "\r\n" {
		return errChunks
	}
	return c.verify()
}

// verify judges the signature of a chunk.
func (c *chunks) verify() error {
	if c.kind == unsignedTrailer {
		return nil
	}
	return c.follows(c.signature.toSign(algorithm+"-PAYLOAD", c.previous, emptySum, hex.EncodeToString(c.hash.Sum(nil))))
}

// follows judges a signature that follows from the one before.
func (c *chunks) follows(text string) error {
	got := c.signature.sign(c.secret, text)
	want, err := hex.DecodeString(c.expected)
	if err != nil || !hmac.Equal(got, want) {
		return refuse("SignatureDoesNotMatch", "the signature of a chunk does not match")
	}
	c.previous = c.expected
	return nil
}

// trailer reads the lines after the last chunk.
func (c *chunks) trailer() error {
	var canonical strings.Builder
	checked, signed := false, c.kind != signedTrailer
	for range maxTrailers {
		line, err := c.line()
		if err != nil {
			return err
		}
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case line == "":
			if c.announced != "" && !checked || !signed {
				return refuse("MalformedTrailerError", "the checksum or the signature at the end is missing")
			}
			return nil
		case !ok || c.kind == signedChunks:
			return errChunks
		case name == "x-amz-trailer-signature" && c.kind == signedTrailer:
			c.expected, signed = value, true
			if err := c.follows(c.signature.toSign(algorithm+"-TRAILER", c.previous, sum(canonical.String()))); err != nil {
				return err
			}
		case name != c.announced || checked:
			return refuse("MalformedTrailerError", "the trailer was not announced")
		default:
			if want, err := base64.StdEncoding.DecodeString(value); err != nil || !hmac.Equal(c.whole.Sum(nil), want) {
				return refuse("BadDigest", "the body has another checksum than was announced")
			}
			checked = true
			canonical.WriteString(name + ":" + value + "\n")
		}
	}
	return errChunks
}

// line reads a line, without its end.
func (c *chunks) line() (string, error) {
	line, err := c.r.ReadSlice('\n')
	if len(line) > maxChunkHeader {
		return "", errChunks
	}
	if err == io.EOF && len(line) == 0 && c.done {
		return "", nil // some clients leave out the last empty line
	}
	if err != nil {
		return "", refuse("IncompleteBody", "the body ended early")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), nil
}
