package s3

import (
	"encoding/hex"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sum is the SHA-256 of a text.
func Sum(text string) string { return sum(text) }

// Sign signs a request, with all headers of Amazon's and the named ones.
func Sign(r *http.Request, access, secret string, at time.Time, also ...string) {
	at = at.UTC()
	r.Header.Set("X-Amz-Date", at.Format(timeFormat))
	r.Host = r.URL.Host
	s := &signature{date: at.Format("20060102"), region: region, at: at, headers: append(also, "host"), payload: r.Header.Get("X-Amz-Content-Sha256")}
	s.scope = s.date + "/" + region + "/s3/aws4_request"
	for name := range r.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-amz-") {
			s.headers = append(s.headers, lower)
		}
	}
	slices.Sort(s.headers)
	q, err := readQuery(r.URL.RawQuery)
	if err != nil {
		panic(err)
	}
	value := s.sign(secret, s.toSign(algorithm, sum(s.canonical(r, q))))
	r.Header.Set("Authorization", algorithm+" Credential="+access+"/"+s.scope+", SignedHeaders="+strings.Join(s.headers, ";")+", Signature="+hex.EncodeToString(value))
}

// ReadSignature reads the signature of a query or a header, and returns its access
// key.
func ReadSignature(raw, authorization string) (string, error) {
	q, err := readQuery(raw)
	if err != nil {
		return "", err
	}
	r := &http.Request{Header: http.Header{"X-Amz-Content-Sha256": {unsignedPayload}, "X-Amz-Date": {"20260102T030405Z"}}}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	s, err := readSignature(r, q)
	if err != nil || s == nil {
		return "", err
	}
	return s.access, nil
}

// ReadChunks reads a body in chunks with a checksum behind them, and counts the
// bytes.
func ReadChunks(body string, size int64) (int64, error) {
	r := &http.Request{Header: http.Header{}}
	r.Header.Set("X-Amz-Decoded-Content-Length", strconv.FormatInt(size, 10))
	r.Header.Set("X-Amz-Trailer", "x-amz-checksum-crc32")
	q := &request{Request: r, signature: &signature{}}
	p, err := q.chunked(strings.NewReader(body), unsignedTrailer)
	if err != nil {
		return 0, err
	}
	return io.Copy(io.Discard, p)
}
