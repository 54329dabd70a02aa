package s3

import (
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/vfs"
)

// createUpload begins an upload in parts.
func (q *request) createUpload(path string) error {
	files, err := q.enter("vfs:write")
	if err != nil {
		return err
	}
	o, err := q.options(files, path)
	if err != nil {
		return err
	}
	u := &upload{bucket: q.bucket, path: path, contentType: o.ContentType, mtime: o.Mtime}
	if err := q.door.uploads.begin(q.who, u); err != nil {
		return err
	}
	return q.answer(http.StatusOK, struct {
		XMLName  struct{} `xml:"InitiateMultipartUploadResult"`
		Bucket   string
		Key      string
		UploadID string `xml:"UploadId"`
	}{Bucket: q.bucket, Key: q.key, UploadID: u.id})
}

// upload finds the upload that a request goes on with.
func (q *request) upload(id string) (*upload, error) {
	path, _, err := objectPath(q.key)
	if err != nil {
		return nil, err
	}
	if _, err := q.enter("vfs:write"); err != nil {
		return nil, err
	}
	return q.door.uploads.find(q.who, id, q.bucket, path)
}

// partNumber is the number of the part that a request is about.
func (q *request) partNumber() (int, error) {
	n, err := strconv.Atoi(q.query.get("partNumber"))
	if err != nil || n < 1 || n > maxParts {
		return 0, refuse("InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive")
	}
	return n, nil
}

// putPart takes a part.
func (q *request) putPart(id string) error {
	number, err := q.partNumber()
	if err != nil {
		return err
	}
	u, err := q.upload(id)
	if err != nil {
		return err
	}
	body, err := q.door.Files.Accept(q.w, q.Request, q.who, q.bucket)
	if err != nil {
		return err
	}
	p, err := q.storePart(u, number, body)
	if err = body.Close(err); err != nil {
		return err
	}
	q.w.Header().Set("Etag", `"`+p.tag+`"`)
	q.w.WriteHeader(http.StatusOK)
	return nil
}

func (q *request) storePart(u *upload, number int, body io.Reader) (part, error) {
	p, err := q.content(body)
	if err != nil {
		return part{}, err
	}
	switch {
	case p.size < 0:
		return part{}, refuse("MissingContentLength", "You must provide the Content-Length HTTP header.")
	case p.size > q.door.Files.MaxFile:
		return part{}, refuse("EntityTooLarge", "Your proposed upload exceeds the maximum allowed object size.")
	}
	return q.door.uploads.store(u, number, p, p.size)
}

// copyPart takes a part from an object, or a range of it.
func (q *request) copyPart(id string) error {
	number, err := q.partNumber()
	if err != nil {
		return err
	}
	u, err := q.upload(id)
	if err != nil {
		return err
	}
	s, err := q.source()
	if err != nil {
		return err
	}
	from, f, err := q.open(s)
	if err != nil {
		return err
	}
	first, size, err := partRange(q.Header.Get("X-Amz-Copy-Source-Range"), f.Size)
	if err != nil {
		return err
	}
	content, _, err := from.Files.Open(q.Context(), from.Group, from.Path, f.Version)
	if err != nil {
		return err
	}
	defer content.Close()
	if _, err := content.Seek(first, io.SeekStart); err != nil {
		return err
	}
	p, err := q.door.uploads.store(u, number, io.LimitReader(content, size), size)
	if err != nil {
		return err
	}
	return q.answer(http.StatusOK, struct {
		XMLName      struct{} `xml:"CopyPartResult"`
		ETag         string
		LastModified string
	}{ETag: `"` + p.tag + `"`, LastModified: p.at.UTC().Format("2006-01-02T15:04:05.000Z")})
}

// partRange reads "bytes=FIRST-LAST", or all of it without one.
func partRange(text string, size int64) (first, length int64, err error) {
	if text == "" {
		return 0, size, nil
	}
	from, to, ok := strings.Cut(strings.TrimPrefix(text, "bytes="), "-")
	first, err = strconv.ParseInt(from, 10, 64)
	last, lastErr := strconv.ParseInt(to, 10, 64)
	if !ok || err != nil || lastErr != nil || first < 0 || last < first || last >= size {
		return 0, 0, refuse("InvalidArgument", "Range specified is not valid for source object of size: "+strconv.FormatInt(size, 10))
	}
	return first, last - first + 1, nil
}

// A completion is the body of CompleteMultipartUpload.
type completion struct {
	XMLName struct{} `xml:"CompleteMultipartUpload"`
	Parts   []struct {
		PartNumber int
		ETag       string
	} `xml:"Part"`
}

// completeUpload makes an object of the parts that are named.
func (q *request) completeUpload(path, id string) error {
	var asked completion
	if err := q.read(&asked); err != nil {
		return err
	}
	u, err := q.upload(id)
	if err != nil {
		return err
	}
	files, err := q.enter("vfs:write")
	if err != nil {
		return err
	}
	expected, err := q.condition(files, path)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return errNoUpload
	}
	content, size, err := u.assemble(&asked)
	if err != nil {
		return err
	}
	defer content.Close()
	o := vfs.PutOptions{Size: size, IfVersion: expected, ContentType: u.contentType, Mtime: u.mtime}
	f, err := files.Put(q.Context(), q.bucket, path, content, o)
	q.tell("vfs.put", path, err)
	if err != nil {
		return err
	}
	q.door.uploads.end(u)
	q.describe(f)
	return q.answer(http.StatusOK, struct {
		XMLName  struct{} `xml:"CompleteMultipartUploadResult"`
		Location string
		Bucket   string
		Key      string
		ETag     string
	}{Location: q.URL.EscapedPath(), Bucket: q.bucket, Key: q.key, ETag: etag(f)})
}

// assemble finds the parts that an object is to be made of. The upload is locked.
func (u *upload) assemble(asked *completion) (*contents, int64, error) {
	if len(asked.Parts) == 0 || len(asked.Parts) > maxParts {
		return nil, 0, refuse("MalformedXML", "a completion names 1 to 10000 parts")
	}
	c, size, last := new(contents), int64(0), 0
	for _, named := range asked.Parts {
		p, ok := u.parts[named.PartNumber]
		switch {
		case named.PartNumber <= last:
			return nil, 0, refuse("InvalidPartOrder", "The list of parts was not in ascending order. The parts list must be specified in order by part number.")
		case !ok || strings.Trim(named.ETag, `"`) != p.tag:
			return nil, 0, refuse("InvalidPart", "One or more of the specified parts could not be found. The part might not have been uploaded, or the specified entity tag might not have matched the part's entity tag.")
		}
		c.files = append(c.files, p.file)
		size, last = size+p.size, named.PartNumber
	}
	return c, size, nil
}

// abortUpload gives an upload up.
func (q *request) abortUpload(id string) error {
	u, err := q.upload(id)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over { // while this waited
		return errNoUpload
	}
	q.door.uploads.end(u)
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// listParts lists the parts that have come.
func (q *request) listParts(id string) error {
	u, err := q.upload(id)
	if err != nil {
		return err
	}
	type shown struct {
		PartNumber   int
		LastModified string
		ETag         string
		Size         int64
	}
	result := struct {
		XMLName              struct{} `xml:"ListPartsResult"`
		Bucket               string
		Key                  string
		UploadID             string `xml:"UploadId"`
		PartNumberMarker     int
		NextPartNumberMarker int `xml:",omitempty"`
		MaxParts             int
		IsTruncated          bool
		Parts                []shown `xml:"Part"`
		StorageClass         string
	}{Bucket: q.bucket, Key: q.key, UploadID: id, MaxParts: vfs.MaxLimit, StorageClass: "STANDARD"}
	if n, err := strconv.Atoi(q.query.get("max-parts")); err == nil && n > 0 {
		result.MaxParts = min(n, vfs.MaxLimit)
	}
	result.PartNumberMarker, _ = strconv.Atoi(q.query.get("part-number-marker"))
	u.mu.Lock()
	defer u.mu.Unlock()
	for number := max(1, result.PartNumberMarker+1); number <= maxParts; number++ {
		p, ok := u.parts[number]
		if !ok {
			continue
		}
		if len(result.Parts) == result.MaxParts {
			result.IsTruncated, result.NextPartNumberMarker = true, result.Parts[len(result.Parts)-1].PartNumber
			break
		}
		result.Parts = append(result.Parts, shown{number, p.at.UTC().Format("2006-01-02T15:04:05.000Z"), `"` + p.tag + `"`, p.size})
	}
	return q.answer(http.StatusOK, result)
}

// listUploads lists the uploads under way that the principal has begun.
func (q *request) listUploads() error {
	if _, err := q.enter("vfs:write"); err != nil {
		return err
	}
	type shown struct {
		Key       string
		UploadID  string `xml:"UploadId"`
		Initiated string
	}
	result := struct {
		XMLName     struct{} `xml:"ListMultipartUploadsResult"`
		Bucket      string
		Prefix      string
		MaxUploads  int
		IsTruncated bool
		Uploads     []shown `xml:"Upload"`
	}{Bucket: q.bucket, Prefix: q.query.get("prefix"), MaxUploads: maxUploadsOfParty}
	for _, u := range q.door.uploads.all() {
		if u.owner.Is(q.who) && u.space == q.who.Home() && u.bucket == q.bucket && strings.HasPrefix(keyOf(u.path), result.Prefix) {
			result.Uploads = append(result.Uploads, shown{keyOf(u.path), u.id, u.begun.UTC().Format("2006-01-02T15:04:05.000Z")})
		}
	}
	return q.answer(http.StatusOK, result)
}
