package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Signature Version 4, as
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-authenticating-requests.html
// has it.
const (
	algorithm  = "AWS4-HMAC-SHA256"
	timeFormat = "20060102T150405Z"

	// maxSkew bounds the difference between the clocks of client and bridge. Within it an
	// overheard request can be replayed.
	maxSkew = 15 * time.Minute
	// maxPresigned is the longest life of a presigned URL.
	maxPresigned = 7 * 24 * time.Hour
)

// Kinds of payloads that a client says by x-amz-content-sha256 instead of a sum.
const (
	unsignedPayload  = "UNSIGNED-PAYLOAD"
	signedChunks     = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	signedTrailer    = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
	unsignedTrailer  = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	emptySum         = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	maxSignedHeaders = 64
)

// A signature holds the particulars of a request's signature.
type signature struct {
	access    string // id of the key
	scope     string // date/region/s3/aws4_request
	date      string // YYYYMMDD
	region    string
	at        time.Time
	headers   []string // that are signed, in order
	value     []byte
	presigned bool
	life      time.Duration // of a presigned URL
	payload   string        // sum of the body, or a kind of payload
}

// readSignature reads the signature of a request, nil for none.
func readSignature(r *http.Request, q query) (*signature, error) {
	authorizations := r.Header.Values("Authorization")
	presigned := q.has("X-Amz-Algorithm") || q.has("X-Amz-Signature") || q.has("X-Amz-Credential")
	switch {
	case len(authorizations) == 0 && !presigned:
		return nil, nil
	case len(authorizations) > 0 && presigned || len(authorizations) > 1:
		return nil, refuse("InvalidArgument", "one signature is enough")
	case presigned:
		return readPresigned(q)
	}
	fields, ok := strings.CutPrefix(authorizations[0], algorithm+" ")
	if !ok {
		return nil, refuse("InvalidRequest", "requests are signed by "+algorithm)
	}
	given := make(map[string]string)
	for field := range strings.SplitSeq(fields, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(field), "=")
		if _, twice := given[name]; !ok || twice {
			return nil, malformedAuthorization
		}
		given[name] = value
	}
	s := &signature{payload: r.Header.Get("X-Amz-Content-Sha256")}
	if s.payload == "" {
		return nil, refuse("InvalidRequest", "x-amz-content-sha256 is missing")
	}
	date := r.Header.Get("X-Amz-Date")
	if date == "" {
		if t, err := http.ParseTime(r.Header.Get("Date")); err == nil {
			date = t.UTC().Format(timeFormat)
		}
	}
	return s, s.read(given["Credential"], date, given["SignedHeaders"], given["Signature"])
}

func readPresigned(q query) (*signature, error) {
	if q.get("X-Amz-Algorithm") != algorithm {
		return nil, refuse("AuthorizationQueryParametersError", "X-Amz-Algorithm must be "+algorithm)
	}
	seconds, err := strconv.ParseUint(q.get("X-Amz-Expires"), 10, 32)
	s := &signature{presigned: true, life: time.Duration(seconds) * time.Second, payload: unsignedPayload}
	if err != nil || seconds == 0 || s.life > maxPresigned {
		return nil, refuse("AuthorizationQueryParametersError", "X-Amz-Expires must be within 1 and 604800 seconds")
	}
	if sum := q.get("X-Amz-Content-Sha256"); sum != "" {
		s.payload = sum
	}
	return s, s.read(q.get("X-Amz-Credential"), q.get("X-Amz-Date"), q.get("X-Amz-SignedHeaders"), q.get("X-Amz-Signature"))
}

var malformedAuthorization = refuse("AuthorizationHeaderMalformed", "the signature is not as Signature Version 4 has it")

// read reads the parts of a signature.
func (s *signature) read(credential, date, headers, value string) (err error) {
	parts := strings.Split(credential, "/")
	if len(parts) != 5 || parts[0] == "" || parts[3] != "s3" || parts[4] != "aws4_request" {
		return malformedAuthorization
	}
	s.access, s.date, s.region = parts[0], parts[1], parts[2]
	s.scope = strings.Join(parts[1:], "/")
	if s.at, err = time.Parse(timeFormat, date); err != nil || !strings.HasPrefix(date, s.date) || len(s.date) != len("20060102") {
		return refuse("AccessDenied", "the time of the signature is missing, or not that of its scope")
	}
	s.headers = strings.Split(headers, ";")
	if len(s.headers) > maxSignedHeaders || !slices.IsSorted(s.headers) || !slices.Contains(s.headers, "host") {
		return malformedAuthorization
	}
	if s.value, err = hex.DecodeString(value); err != nil || len(s.value) != sha256.Size {
		return malformedAuthorization
	}
	return nil
}

// inTime refuses a signature that is too old, or from the future.
func (s *signature) inTime(now time.Time) error {
	switch age := now.Sub(s.at); {
	case age < -maxSkew, !s.presigned && age > maxSkew:
		return refuse("RequestTimeTooSkewed", "the time of the request is more than 15 minutes from that of the bridge")
	case s.presigned && age > s.life:
		return refuse("AccessDenied", "Request has expired")
	}
	return nil
}

// covers refuses a request with headers of Amazon's that are not signed: they may
// have been added on the way.
func (s *signature) covers(h http.Header) error {
	for name := range h {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "x-amz-") && !slices.Contains(s.headers, lower) && !(s.presigned && lower == "x-amz-content-sha256") {
			return refuse("AccessDenied", "There were headers present in the request which were not signed: "+lower)
		}
	}
	return nil
}

// matches reports whether a request was signed with a secret.
func (s *signature) matches(r *http.Request, q query, secret string) bool {
	return hmac.Equal(s.sign(secret, s.toSign(algorithm, sum(s.canonical(r, q)))), s.value)
}

// toSign is the string that is signed, of a kind.
func (s *signature) toSign(kind string, lines ...string) string {
	return strings.Join(append([]string{kind, s.at.Format(timeFormat), s.scope}, lines...), "\n")
}

// sign signs a string with the key that follows from a secret and the scope.
func (s *signature) sign(secret, text string) []byte {
	key := []byte("AWS4" + secret)
	for _, part := range []string{s.date, s.region, "s3", "aws4_request"} {
		key = mac(key, part)
	}
	return mac(key, text)
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func sum(text string) string {
	digest := sha256.Sum256([]byte(text))
	return hex.EncodeToString(digest[:])
}

// canonical is the request as it is signed.
func (s *signature) canonical(r *http.Request, q query) string {
	var b strings.Builder
	b.WriteString(r.Method + "\n" + canonicalPath(r.URL.EscapedPath()) + "\n" + q.canonical() + "\n")
	for _, name := range s.headers {
		values := r.Header.Values(name)
		switch name {
		case "host":
			values = []string{r.Host}
		case "content-length": // which Go takes out of the headers
			values = []string{strconv.FormatInt(r.ContentLength, 10)}
		}
		trimmed := make([]string, len(values))
		for i, v := range values {
			trimmed[i] = strings.Join(strings.Fields(v), " ")
		}
		b.WriteString(name + ":" + strings.Join(trimmed, ",") + "\n")
	}
	b.WriteString("\n" + strings.Join(s.headers, ";") + "\n" + s.payload)
	return b.String()
}

// canonicalPath is a path with every name encoded once, as S3 has it.
func canonicalPath(escaped string) string {
	names := strings.Split(escaped, "/")
	for i, name := range names {
		plain, err := url.PathUnescape(name)
		if err != nil {
			plain = name
		}
		names[i] = encode(plain)
	}
	if path := strings.Join(names, "/"); path != "" {
		return path
	}
	return "/"
}

// encode encodes everything but the unreserved characters of RFC 3986.
func encode(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == '~':
			b.WriteByte(c)
		default:
			b.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
		}
	}
	return b.String()
}

// A query holds the parameters of a request, as they are signed: a plus sign is
// one, and no space.
type query []parameter

type parameter struct{ name, value string }

// readQuery reads the parameters of a URL.
func readQuery(raw string) (q query, err error) {
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		var p parameter
		if p.name, err = url.PathUnescape(name); err == nil {
			p.value, err = url.PathUnescape(value)
		}
		if err != nil {
			return nil, refuse("InvalidURI", "the query is not well encoded")
		}
		if q.has(p.name) {
			return nil, refuse("InvalidArgument", "a parameter is there twice: "+p.name)
		}
		q = append(q, p)
	}
	return q, nil
}

func (q query) has(name string) bool {
	return slices.ContainsFunc(q, func(p parameter) bool { return p.name == name })
}

func (q query) get(name string) string {
	for _, p := range q {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// canonical is the query as it is signed: without the signature, in order.
func (q query) canonical() string {
	var parts []string
	for _, p := range q {
		if p.name != "X-Amz-Signature" {
			parts = append(parts, encode(p.name)+"="+encode(p.value))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "&")
}
