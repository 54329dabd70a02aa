// Package s3 serves the files of the VFS by the protocol of Amazon S3, for the
// many programs that speak it: rclone, the command line and SDKs of AWS, backup
// tools. A group is a bucket, the path of a file its key, and each of its versions
// a version of the object.
//
// Requests are signed (Signature Version 4) with the access key of an API key, or
// are presigned. Every write makes a version, is seen whole or not at all, and
// copies take no bytes. Entity tags are the SHA-256 of the content. The decision
// record 0044 says why the door is our own and where its secrets come from.
package s3

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/aibridge/aibridge/doors/files"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Path is the path of the door.
const Path = "/s3"

// Options configure a [Door]. All but Now are needed.
type Options struct {
	Files *files.Handler
	// Authenticate yields the principal of an access key whose secret satisfies a
	// check.
	Authenticate func(r *http.Request, access string, check func(secret string) bool) (*protocol.Principal, error)
	// Anonymous yields the principal of an unsigned request.
	Anonymous func(*http.Request) (*protocol.Principal, error)
	// Spool is the folder for the parts of uploads under way.
	Spool string
	// Room is the number of bytes that may still be written there.
	Room func() int64
	Now  func() time.Time
}

// A Door serves /s3/….
type Door struct {
	Options
	uploads *uploads
}

// New makes the door.
func New(o Options) (*Door, error) {
	if o.Files == nil || o.Authenticate == nil || o.Anonymous == nil || o.Spool == "" || o.Room == nil {
		return nil, errors.New("s3: Files, Authenticate, Anonymous, Spool and Room are needed")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Door{Options: o, uploads: newUploads(o)}, nil
}

// Run forgets abandoned uploads, until ctx ends.
func (d *Door) Run(ctx context.Context) error { return d.uploads.run(ctx) }

// A request is one of a principal, for a bucket or an object.
type request struct {
	*http.Request
	door        *Door
	w           http.ResponseWriter
	query       query
	signature   *signature // nil for one that is not signed
	secret      string     // that it was signed with
	who         *protocol.Principal
	bucket, key string
}

// ServeHTTP implements [http.Handler].
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &request{Request: r, door: d, w: w}
	id := protocol.NewID()
	w.Header().Set("X-Amz-Request-Id", id)
	if err := q.serve(); err != nil {
		q.fail(err, id)
	}
}

func (q *request) serve() (err error) {
	if q.query, err = readQuery(q.URL.RawQuery); err != nil {
		return err
	}
	if err := q.authenticate(); err != nil {
		return err
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(q.URL.Path, Path), "/")
	q.bucket, q.key, _ = strings.Cut(rest, "/")
	if q.bucket == "" {
		return q.listBuckets()
	}
	if err := vfs.CheckGroup(q.bucket); err != nil {
		return refuse("InvalidBucketName", "The specified bucket is not valid.")
	}
	for _, name := range unsupported {
		if q.query.has(name) {
			return refuse("NotImplemented", "the bridge has no "+name+" of buckets and objects")
		}
	}
	if q.key == "" {
		return q.serveBucket()
	}
	return q.serveObject()
}

// unsupported are the parameters of operations on things that files do not have.
var unsupported = []string{
	"accelerate", "acl", "analytics", "attributes", "cors", "encryption", "intelligent-tiering", "inventory", "legal-hold", "lifecycle",
	"logging", "metrics", "notification", "object-lock", "ownershipControls", "policy", "policyStatus", "publicAccessBlock", "replication",
	"requestPayment", "restore", "retention", "select", "tagging", "torrent", "website",
}

// authenticate finds the principal that has signed a request. The answer to a wrong
// signature is that to an unknown key.
func (q *request) authenticate() (err error) {
	if q.signature, err = readSignature(q.Request, q.query); err != nil {
		return err
	}
	s := q.signature
	if s == nil {
		q.who, err = q.door.Anonymous(q.Request)
		return err
	}
	if err := s.inTime(q.door.Now()); err != nil {
		return err
	}
	if err := s.covers(q.Header); err != nil {
		return err
	}
	q.who, err = q.door.Authenticate(q.Request, s.access, func(secret string) bool {
		q.secret = secret
		return s.matches(q.Request, q.query, secret)
	})
	return err
}

func (q *request) serveBucket() error {
	switch q.Method {
	case http.MethodHead:
		return q.headBucket()
	case http.MethodGet:
		return q.getBucket()
	case http.MethodPut:
		if q.query.has("versioning") {
			return q.putVersioning()
		}
		return q.createBucket()
	case http.MethodDelete:
		return q.deleteBucket()
	case http.MethodPost:
		if q.query.has("delete") {
			return q.deleteObjects()
		}
	}
	return errMethod
}

func (q *request) getBucket() error {
	switch {
	case q.query.has("location"):
		return q.location()
	case q.query.has("versioning"):
		return q.versioning()
	case q.query.has("versions"):
		return q.listVersions()
	case q.query.has("uploads"):
		return q.listUploads()
	}
	return q.listObjects()
}

func (q *request) serveObject() error {
	path, folder, err := objectPath(q.key)
	if err != nil {
		return err
	}
	upload := q.query.get("uploadId")
	copies := q.Header.Get("X-Amz-Copy-Source") != ""
	switch q.Method {
	case http.MethodGet, http.MethodHead:
		if upload != "" {
			return q.listParts(upload)
		}
		return q.getObject(path)
	case http.MethodPut:
		switch {
		case upload != "" && copies:
			return q.copyPart(upload)
		case upload != "":
			return q.putPart(upload)
		case copies:
			return q.copyObject(path)
		}
		return q.putObject(path, folder)
	case http.MethodDelete:
		if upload != "" {
			return q.abortUpload(upload)
		}
		return q.deleteObject(path)
	case http.MethodPost:
		switch {
		case q.query.has("uploads"):
			return q.createUpload(path)
		case upload != "":
			return q.completeUpload(path, upload)
		}
	}
	return errMethod
}

var errMethod = refuse("MethodNotAllowed", "The specified method is not allowed against this resource.")

// objectPath is the path of an object's file. A key that ends in a slash is a
// folder, which an empty file represents.
func objectPath(key string) (path string, folder bool, err error) {
	if name, ok := strings.CutSuffix(key, "/"); ok {
		path, folder = vfs.MarkerOf(name), true
		if name == "" {
			return "", false, refuse("InvalidArgument", "a key may not begin with a slash")
		}
	} else if path = key; vfs.IsMarker(key) {
		return "", false, refuse("InvalidArgument", "the name "+vfs.FolderMarker+" is the bridge's own")
	}
	if _, err := vfs.CleanPath(path); err != nil {
		return "", false, err
	}
	return path, folder, nil
}

// keyOf is the key of the object that a file is.
func keyOf(path string) string {
	if vfs.IsMarker(path) {
		return strings.TrimSuffix(path, vfs.FolderMarker)
	}
	return path
}

// enter asks whether the principal may do something with the bucket's files.
func (q *request) enter(action string) (vfs.Files, error) {
	return q.door.Files.Enter(q.Context(), q.who, action, q.bucket)
}

// tell has an action recorded.
func (q *request) tell(name, path string, err error) {
	q.door.Files.Tell(q.Request, q.who, name, q.bucket, path, err)
}
