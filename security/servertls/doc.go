// Package servertls is how the bridge proves over TLS who it is, and asks its
// clients to: with a certificate of its own authority or one in files, which is
// watched for its end.
package servertls
