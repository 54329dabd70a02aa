package s3

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// A listing is a list of objects, by page.
type listing struct {
	prefix, delimiter string
	from              string // the last path, or the last folder with its slash, of the page before
	most              int

	files   []vfs.File
	folders []string // common prefixes, each for all keys that begin with it
	next    string   // where the next page begins, "" at the end
}

// readListing reads the parameters that all lists have.
func (q *request) readListing() (l listing, err error) {
	l = listing{prefix: q.query.get("prefix"), delimiter: q.query.get("delimiter"), most: vfs.MaxLimit}
	if l.delimiter != "" && l.delimiter != "/" {
		return l, refuse("NotImplemented", "the delimiter can only be /")
	}
	if text := q.query.get("max-keys"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return l, refuse("InvalidArgument", "max-keys must be a whole number")
		}
		l.most = min(n, vfs.MaxLimit)
	}
	if e := q.query.get("encoding-type"); e != "" && e != "url" {
		return l, refuse("InvalidArgument", "encoding-type can only be url")
	}
	return l, nil
}

// afterFolder comes after everything that a path in a folder may have behind the
// slash.
const afterFolder = "\U0010FFFF"

// fill looks up a page. It skips the content of a folder that is listed as one.
func (l *listing) fill(q *request, files vfs.Files, deleted bool) error {
	cursor := l.from
	for l.most > 0 {
		skip := cursor
		if l.delimiter != "" && len(skip) > len(l.prefix) && strings.HasSuffix(skip, "/") {
			skip += afterFolder
		}
		page, next, err := files.List(q.Context(), q.bucket, l.prefix, skip, l.most, deleted)
		if err != nil {
			return err
		}
		for _, f := range page {
			folder := l.folderOf(f)
			if folder != "" && folder == cursor || f.Path == vfs.FolderMarker {
				continue
			}
			if len(l.files)+len(l.folders) == l.most {
				l.next = cursor
				return nil
			}
			if cursor = f.Path; folder != "" {
				cursor = folder
				l.folders = append(l.folders, folder)
				continue
			}
			l.files = append(l.files, f)
		}
		if next == "" {
			return nil
		}
		if len(page) > 0 && !strings.HasSuffix(cursor, "/") && cursor < next {
			cursor = next
		}
	}
	return nil
}

// folderOf is the prefix that a file is listed under, "" for by itself.
func (l *listing) folderOf(f vfs.File) string {
	if l.delimiter == "" {
		return ""
	}
	key := keyOf(f.Path)
	if len(key) < len(l.prefix) {
		return ""
	}
	if i := strings.Index(key[len(l.prefix):], "/"); i >= 0 {
		return key[:len(l.prefix)+i+1]
	}
	return ""
}

// An object is one in a list.
type object struct {
	Key          string
	LastModified string
	ETag         string
	Size         int64
	StorageClass string
	Owner        *owner `xml:",omitempty"`
}

type prefix struct{ Prefix string }

// A listResult is the answer to both versions of ListObjects.
type listResult struct {
	XMLName               struct{} `xml:"ListBucketResult"`
	Name                  string
	Prefix                string
	Delimiter             string  `xml:",omitempty"`
	EncodingType          string  `xml:",omitempty"`
	Marker                *string `xml:",omitempty"`
	NextMarker            string  `xml:",omitempty"`
	StartAfter            string  `xml:",omitempty"`
	ContinuationToken     string  `xml:",omitempty"`
	NextContinuationToken string  `xml:",omitempty"`
	KeyCount              *int    `xml:",omitempty"`
	MaxKeys               int
	IsTruncated           bool
	Contents              []object
	CommonPrefixes        []prefix
}

// listObjects lists the objects of a bucket.
func (q *request) listObjects() error {
	l, err := q.readListing()
	if err != nil {
		return err
	}
	second := q.query.get("list-type") == "2"
	if l.from, err = q.listFrom(second); err != nil {
		return err
	}
	if err := q.there(); err != nil {
		return err
	}
	files, err := q.enter("vfs:list")
	if err != nil {
		return err
	}
	if err := l.fill(q, files, false); err != nil {
		return err
	}
	name := q.naming()
	r := listResult{Name: q.bucket, Prefix: name(l.prefix), Delimiter: name(l.delimiter), EncodingType: q.query.get("encoding-type"),
		MaxKeys: l.most, IsTruncated: l.next != ""}
	for _, f := range l.files {
		o := object{Key: name(keyOf(f.Path)), LastModified: modified(f), ETag: etag(f), Size: f.Size, StorageClass: "STANDARD"}
		if !second || q.query.get("fetch-owner") == "true" {
			who := q.owner()
			o.Owner = &who
		}
		r.Contents = append(r.Contents, o)
	}
	for _, p := range l.folders {
		r.CommonPrefixes = append(r.CommonPrefixes, prefix{name(p)})
	}
	if second {
		count := len(l.files) + len(l.folders)
		r.KeyCount, r.ContinuationToken, r.StartAfter = &count, q.query.get("continuation-token"), name(q.query.get("start-after"))
		if l.next != "" {
			r.NextContinuationToken = base64.RawURLEncoding.EncodeToString([]byte(l.next))
		}
	} else {
		marker := name(q.query.get("marker"))
		r.Marker, r.NextMarker = &marker, name(l.next)
	}
	return q.answer(http.StatusOK, r)
}

// listFrom is the name that a list begins after.
func (q *request) listFrom(second bool) (string, error) {
	if !second {
		return q.query.get("marker"), nil
	}
	token := q.query.get("continuation-token")
	if token == "" {
		return q.query.get("start-after"), nil
	}
	from, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", refuse("InvalidArgument", "The continuation token provided is incorrect")
	}
	return string(from), nil
}

// naming writes keys as the client wishes.
func (q *request) naming() func(string) string {
	if q.query.get("encoding-type") == "" {
		return func(key string) string { return key }
	}
	return func(key string) string { return strings.ReplaceAll(encode(key), "%2F", "/") }
}

// An objectVersion is a version of an object, or a marker of a deletion.
type objectVersion struct {
	Key          string
	VersionID    string `xml:"VersionId"`
	IsLatest     bool
	LastModified string
	ETag         string `xml:",omitempty"`
	Size         *int64 `xml:",omitempty"`
	StorageClass string `xml:",omitempty"`
	Owner        owner
}

// A versionList is the answer to ListObjectVersions.
type versionList struct {
	XMLName        struct{} `xml:"ListVersionsResult"`
	Name           string
	Prefix         string
	Delimiter      string `xml:",omitempty"`
	EncodingType   string `xml:",omitempty"`
	KeyMarker      string
	NextKeyMarker  string `xml:",omitempty"`
	MaxKeys        int
	IsTruncated    bool
	Versions       []objectVersion `xml:"Version"`
	Deletions      []objectVersion `xml:"DeleteMarker"`
	CommonPrefixes []prefix
}

// add adds the versions of an object, the newest first.
func (r *versionList) add(key string, by owner, history []vfs.File) {
	for i, v := range slices.Backward(history) {
		o := objectVersion{Key: key, VersionID: strconv.FormatUint(v.Version, 10), IsLatest: i == len(history)-1, LastModified: modified(v), Owner: by}
		if v.Deleted {
			r.Deletions = append(r.Deletions, o)
			continue
		}
		o.ETag, o.Size, o.StorageClass = etag(v), &v.Size, "STANDARD"
		r.Versions = append(r.Versions, o)
	}
}

// listVersions lists the versions of objects that are kept, also those of deleted
// objects. A page ends with an object.
func (q *request) listVersions() error {
	l, err := q.readListing()
	if err != nil {
		return err
	}
	l.from = q.query.get("key-marker")
	if err := q.there(); err != nil {
		return err
	}
	files, err := q.enter("vfs:list")
	if err != nil {
		return err
	}
	historian, ok := files.(vfs.Historian)
	if !ok {
		return refuse("NotImplemented", "the VFS that keeps this bucket does not tell its versions")
	}
	l.most = min(l.most, maxVersionedKeys)
	if err := l.fill(q, files, true); err != nil {
		return err
	}
	name := q.naming()
	r := versionList{Name: q.bucket, Prefix: name(l.prefix), Delimiter: name(l.delimiter), EncodingType: q.query.get("encoding-type"),
		KeyMarker: name(q.query.get("key-marker")), NextKeyMarker: name(l.next), MaxKeys: l.most, IsTruncated: l.next != ""}
	for _, f := range l.files {
		history, err := historian.Versions(q.Context(), q.bucket, f.Path)
		if protocol.CodeOf(err) == protocol.FileNotFound {
			continue // it has been forgotten meanwhile
		}
		if err != nil {
			return err
		}
		r.add(name(keyOf(f.Path)), q.owner(), history)
	}
	for _, p := range l.folders {
		r.CommonPrefixes = append(r.CommonPrefixes, prefix{name(p)})
	}
	return q.answer(http.StatusOK, r)
}

// maxVersionedKeys bounds the objects of a page of versions: each may have many.
const maxVersionedKeys = 250
