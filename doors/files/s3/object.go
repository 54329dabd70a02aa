package s3

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/doors/files"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// etag is the entity tag of a file.
func etag(f vfs.File) string { return files.Tag(f) }

// tagged reports whether a file has an entity tag, with quotes or without.
func tagged(f vfs.File, tag string) bool { return `"`+strings.Trim(tag, `"`)+`"` == etag(f) }

// modified is the time of a file's last change in the bucket.
func modified(f vfs.File) string { return f.Modified.UTC().Format("2006-01-02T15:04:05.000Z") }

// version reads the number of a version, 0 for the current one.
func version(text string) (uint64, error) {
	if text == "" || text == "null" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, refuse("InvalidArgument", "Invalid version id specified")
	}
	return n, nil
}

// getObject sends an object, or one of its versions.
func (q *request) getObject(path string) error {
	number, err := version(q.query.get("versionId"))
	if err != nil {
		return err
	}
	files, err := q.enter("vfs:read")
	if err != nil {
		return err
	}
	content, f, err := files.Open(q.Context(), q.bucket, path, number)
	if err != nil {
		if number != 0 && protocol.CodeOf(err) == protocol.FileNotFound {
			return refuse("NoSuchVersion", "The specified version does not exist.")
		}
		return err
	}
	if err := content.Close(); err != nil {
		return err
	}
	q.describe(f)
	return q.door.Files.Send(q.w, q.Request, q.who, files, f, etag(f))
}

// describe sets the headers of a version.
func (q *request) describe(f vfs.File) {
	h := q.w.Header()
	h.Set("X-Amz-Version-Id", strconv.FormatUint(f.Version, 10))
	if f.Mtime != 0 {
		h.Set("X-Amz-Meta-Mtime", strconv.FormatFloat(float64(f.Mtime)/1000, 'f', 3, 64))
	}
}

// options are those of an object that is written.
func (q *request) options(files vfs.Files, path string) (o vfs.PutOptions, err error) {
	if t := q.Header.Get("Content-Type"); t != "application/octet-stream" && t != "binary/octet-stream" && len(t) <= vfs.MaxContentType {
		o.ContentType = t
	}
	if seconds, err := strconv.ParseFloat(q.Header.Get("X-Amz-Meta-Mtime"), 64); err == nil && seconds > 0 && seconds < 1<<42 {
		o.Mtime = int64(seconds * 1000)
	}
	o.Size = -1
	o.IfVersion, err = q.condition(files, path)
	return o, err
}

// condition is the version that an object must have to be written, by the headers
// of HTTP; nil if there are none.
func (q *request) condition(files vfs.Files, path string) (*uint64, error) {
	match, none := q.Header.Get("If-Match"), q.Header.Get("If-None-Match")
	switch {
	case none == "*" && match == "":
		return new(uint64), nil
	case none != "":
		return nil, refuse("NotImplemented", "If-None-Match can only be *")
	case match == "":
		return nil, nil
	}
	f, err := files.Stat(q.Context(), q.bucket, path)
	if err != nil {
		return nil, err
	}
	if match != "*" && !tagged(f, match) {
		return nil, refuse("PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
	}
	return &f.Version, nil
}

// putObject stores the body as an object's new version, when all of it has come.
func (q *request) putObject(path string, folder bool) error {
	files, err := q.enter("vfs:write")
	if err != nil {
		return err
	}
	o, err := q.options(files, path)
	if err != nil {
		return err
	}
	body, err := q.door.Files.Accept(q.w, q.Request, q.who, q.bucket)
	if err != nil {
		return err
	}
	p, err := q.content(body)
	if err != nil {
		return body.Close(err)
	}
	if o.Size = p.size; folder {
		if o.ContentType = vfs.FolderType; p.size != 0 {
			return body.Close(refuse("InvalidArgument", "a folder has no content"))
		}
	}
	f, err := files.Put(q.Context(), q.bucket, path, p, o)
	err = body.Close(err)
	q.tell("vfs.put", path, err)
	if err != nil {
		return err
	}
	q.describe(f)
	q.w.Header().Set("Etag", etag(f))
	q.w.WriteHeader(http.StatusOK)
	return nil
}

// deleteObject makes a version that says the object is gone.
func (q *request) deleteObject(path string) error {
	if q.query.has("versionId") {
		return errVersions
	}
	files, err := q.enter("vfs:delete")
	if err != nil {
		return err
	}
	var number uint64
	expected, err := q.condition(files, path)
	if err != nil {
		return err
	}
	if expected != nil {
		number = *expected
	}
	f, err := files.Delete(q.Context(), q.bucket, path, number)
	if protocol.CodeOf(err) == protocol.FileNotFound && expected == nil {
		q.w.WriteHeader(http.StatusNoContent) // as S3 has it
		return nil
	}
	q.tell("vfs.delete", path, err)
	if err != nil {
		return err
	}
	q.w.Header().Set("X-Amz-Delete-Marker", "true")
	q.w.Header().Set("X-Amz-Version-Id", strconv.FormatUint(f.Version, 10))
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

var errVersions = refuse("NotImplemented", "versions are not deleted one by one: the last ones are kept, by the setting vfs.versions")

// A source is the object that x-amz-copy-source names.
type source struct {
	bucket, path string
	version      uint64
}

func (q *request) source() (s source, err error) {
	text, params, _ := strings.Cut(q.Header.Get("X-Amz-Copy-Source"), "?")
	if text, err = url.PathUnescape(text); err != nil {
		return s, refuse("InvalidArgument", "x-amz-copy-source is not well encoded")
	}
	var key string
	s.bucket, key, _ = strings.Cut(strings.TrimPrefix(text, "/"), "/")
	if vfs.CheckGroup(s.bucket) != nil || key == "" {
		return s, refuse("InvalidArgument", "x-amz-copy-source must be BUCKET/KEY")
	}
	if s.path, _, err = objectPath(key); err != nil {
		return s, err
	}
	if params == "" {
		return s, nil
	}
	number, ok := strings.CutPrefix(params, "versionId=")
	if !ok {
		return s, refuse("InvalidArgument", "x-amz-copy-source has a parameter other than versionId")
	}
	s.version, err = version(number)
	return s, err
}

// open opens a source that the principal may read.
func (q *request) open(s source) (vfs.Located, vfs.File, error) {
	files, err := q.door.Files.Enter(q.Context(), q.who, "vfs:read", s.bucket)
	if err != nil {
		return vfs.Located{}, vfs.File{}, err
	}
	at := vfs.Located{Files: files, Group: s.bucket, Path: s.path}
	content, f, err := files.Open(q.Context(), s.bucket, s.path, s.version)
	if err != nil {
		return at, f, err
	}
	if err := content.Close(); err != nil {
		return at, f, err
	}
	want := q.Header.Get("X-Amz-Copy-Source-If-Match")
	not := q.Header.Get("X-Amz-Copy-Source-If-None-Match")
	if want != "" && !tagged(f, want) || not != "" && tagged(f, not) {
		return at, f, refuse("PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
	}
	return at, f, nil
}

// A copyResult is the answer to a copy.
type copyResult struct {
	XMLName      struct{} `xml:"CopyObjectResult"`
	ETag         string
	LastModified string
}

// copyObject makes an object of a version of another one, by reference.
func (q *request) copyObject(path string) error {
	s, err := q.source()
	if err != nil {
		return err
	}
	from, f, err := q.open(s)
	if err != nil {
		return err
	}
	files, err := q.enter("vfs:write")
	if err != nil {
		return err
	}
	o, err := q.options(files, path)
	if err != nil {
		return err
	}
	if !strings.EqualFold(q.Header.Get("X-Amz-Metadata-Directive"), "REPLACE") {
		o.ContentType, o.Mtime = f.ContentType, f.Mtime
	}
	made, err := vfs.Copy(q.Context(), from, f.Version, vfs.Located{Files: files, Group: q.bucket, Path: path}, o)
	q.tell("vfs.copy", path, err)
	if err != nil {
		return err
	}
	q.w.Header().Set("X-Amz-Copy-Source-Version-Id", strconv.FormatUint(f.Version, 10))
	q.describe(made)
	return q.answer(http.StatusOK, copyResult{ETag: etag(made), LastModified: modified(made)})
}
