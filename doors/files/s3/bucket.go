package s3

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

var errNoBucket = refuse("NoSuchBucket", "The specified bucket does not exist")

// A bucket is one in a list.
type bucket struct {
	Name         string
	CreationDate string
}

// listBuckets lists the groups with files that the principal may list.
func (q *request) listBuckets() error {
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		return errMethod
	}
	type result struct {
		XMLName struct{} `xml:"ListAllMyBucketsResult"`
		Owner   owner
		Buckets []bucket `xml:"Buckets>Bucket"`
	}
	r := result{Owner: q.owner()}
	for _, group := range q.door.Files.Service.GroupsFor(q.who) {
		q.bucket = group
		if q.there() == nil {
			r.Buckets = append(r.Buckets, bucket{group, "1970-01-01T00:00:00.000Z"}) // which the VFS does not know
		}
	}
	return q.answer(http.StatusOK, r)
}

// An owner is the owner of a bucket or an object.
type owner struct {
	ID          string
	DisplayName string
}

func (q *request) owner() owner { return owner{q.who.ID, q.who.ID} }

// there refuses a bucket that the principal sees no files in.
func (q *request) there() error {
	files, err := q.enter("vfs:list")
	if err != nil {
		return err
	}
	found, _, err := files.List(q.Context(), q.bucket, "", "", 1, false)
	if err == nil && len(found) == 0 {
		return errNoBucket
	}
	return err
}

func (q *request) headBucket() error {
	if err := q.there(); err != nil {
		return err
	}
	q.w.Header().Set("X-Amz-Bucket-Region", region)
	q.w.WriteHeader(http.StatusOK)
	return nil
}

// region is the region of all buckets. Signatures for others count as well.
const region = "us-east-1"

// location answers with an empty constraint, which is S3's word for us-east-1.
func (q *request) location() error {
	if err := q.there(); err != nil {
		return err
	}
	return q.answer(http.StatusOK, struct {
		XMLName struct{} `xml:"LocationConstraint"`
	}{})
}

// versioning tells that versions are kept.
func (q *request) versioning() error {
	if err := q.there(); err != nil {
		return err
	}
	return q.answer(http.StatusOK, struct {
		XMLName struct{} `xml:"VersioningConfiguration"`
		Status  string
	}{Status: "Enabled"})
}

// putVersioning accepts the only state that there is.
func (q *request) putVersioning() error {
	var asked struct{ Status string }
	if err := q.read(&asked); err != nil {
		return err
	}
	if asked.Status != "Enabled" {
		return refuse("NotImplemented", "versions are always kept")
	}
	return q.there()
}

// createBucket makes the file that stands for a group, which is the principal's
// from then on. One that is there, and that it may write to, stays as it is.
func (q *request) createBucket() error {
	files, err := q.enter("vfs:write")
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(q.w, q.Body, maxDocument)); err != nil {
		return refuse("MalformedXML", "the body is too large")
	}
	if err := q.there(); errors.Is(err, errNoBucket) {
		_, err = files.Put(q.Context(), q.bucket, vfs.MarkerOf(""), strings.NewReader(""), vfs.PutOptions{Size: 0, ContentType: vfs.FolderType})
		q.tell("vfs.folder", "", err)
		if err != nil {
			return err
		}
	}
	q.w.Header().Set("Location", "/"+q.bucket)
	q.w.WriteHeader(http.StatusOK)
	return nil
}

// deleteBucket deletes a group without files, which is the file that stands for it.
func (q *request) deleteBucket() error {
	if err := q.there(); err != nil {
		return err
	}
	files, err := q.enter("vfs:delete")
	if err != nil {
		return err
	}
	found, _, err := files.List(q.Context(), q.bucket, "", "", 2, false)
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0].Path != vfs.MarkerOf("") {
		return refuse("BucketNotEmpty", "The bucket you tried to delete is not empty")
	}
	_, err = files.Delete(q.Context(), q.bucket, found[0].Path, found[0].Version)
	q.tell("vfs.delete", "", err)
	if err != nil {
		return err
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

// maxDocument bounds the documents that clients send, in bytes.
const maxDocument = 2 << 20

// read reads the document in the body. It has no declarations of types, so that
// there are no entities but those of XML.
func (q *request) read(into any) error {
	p, err := q.content(http.MaxBytesReader(q.w, q.Body, maxDocument))
	if err != nil {
		return err
	}
	data, err := io.ReadAll(p)
	if err != nil {
		return err
	}
	if err := xml.Unmarshal(data, into); err != nil {
		return refuse("MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema")
	}
	return nil
}

// A deletion is the body of DeleteObjects.
type deletion struct {
	XMLName struct{} `xml:"Delete"`
	Quiet   bool
	Objects []struct {
		Key       string
		VersionID string `xml:"VersionId"`
	} `xml:"Object"`
}

type deleted struct {
	Key           string
	DeleteMarker  bool   `xml:",omitempty"`
	MarkerVersion string `xml:"DeleteMarkerVersionId,omitempty"`
}

type notDeleted struct {
	Key     string
	Code    string
	Message string
}

// deleteObjects deletes up to 1000 objects, each for itself.
func (q *request) deleteObjects() error {
	var asked deletion
	if err := q.read(&asked); err != nil {
		return err
	}
	if len(asked.Objects) == 0 || len(asked.Objects) > vfs.MaxLimit {
		return refuse("MalformedXML", "a deletion names 1 to 1000 objects")
	}
	files, err := q.enter("vfs:delete")
	if err != nil {
		return err
	}
	var result struct {
		XMLName struct{}     `xml:"DeleteResult"`
		Deleted []deleted    `xml:"Deleted"`
		Errors  []notDeleted `xml:"Error"`
	}
	for _, o := range asked.Objects {
		marker, err := q.deleteOne(files, o.Key, o.VersionID)
		if err != nil {
			r := inWords(err)
			result.Errors = append(result.Errors, notDeleted{o.Key, r.code, r.message})
		} else if !asked.Quiet {
			result.Deleted = append(result.Deleted, deleted{Key: o.Key, DeleteMarker: marker != "", MarkerVersion: marker})
		}
	}
	return q.answer(http.StatusOK, result)
}

func (q *request) deleteOne(files vfs.Files, key, number string) (marker string, err error) {
	path, _, err := objectPath(key)
	if err != nil {
		return "", err
	}
	if number != "" && number != "null" {
		return "", errVersions
	}
	f, err := files.Delete(q.Context(), q.bucket, path, 0)
	if protocol.CodeOf(err) == protocol.FileNotFound {
		return "", nil
	}
	q.tell("vfs.delete", path, err)
	if err != nil {
		return "", err
	}
	return strconv.FormatUint(f.Version, 10), nil
}
